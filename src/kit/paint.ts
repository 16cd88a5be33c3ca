/** Colours of text on a terminal. */

const codes = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
} as const;

export type Colour = keyof typeof codes;
export type Paint = (colour: Colour | null, text: string) => string;

/** Paints for a terminal alone, and not when `NO_COLOR` is set. */
export function paintFor(
  { isTTY }: { readonly isTTY?: boolean },
  { NO_COLOR: off }: Readonly<Record<string, string | undefined>>,
): Paint {
  const isPlain = !isTTY || Boolean(off);
  return (colour, text) => {
    if (isPlain || colour === null) return text;
    const [on, end] = codes[colour];
    return `\u001b[${on}m${text}\u001b[${end}m`;
  };
}
