/** An event that no machine survives: reading its type throws. */
export const poison = (words = 'poisoned on purpose') => ({
  get type(): string {
    throw new Error(words);
  },
});
