/** What the storage child writes, so that whoever reads it later knows what must be there. */

export const receiver = 'NL-EMS';

/** Text that no compression shortens; its length is by the number, around the average. */
export function bodyOf(number: string, characters: number): string {
  let state = Number(number) + 1;
  const length = Math.ceil(characters * (0.2 + ((Number(number) * 7) % 17) / 10));
  let text = `${number} `;
  while (text.length < length) {
    state = (state * 48_271) % 2_147_483_647;
    text += state.toString(36);
  }
  return text;
}
