/** A sealed text with another character in its middle. The last one will not do: in base64url its low bits may count for nothing. */
export function bent(text: string): string {
  const middle = text.length >> 1;
  return `${text.slice(0, middle)}${text[middle] === 'A' ? 'B' : 'A'}${text.slice(middle + 1)}`;
}
