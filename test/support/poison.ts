/** An event that no machine survives: reading its instant throws. */
export const poison = (words = 'poisoned on purpose') => ({
  type: 'sync.failed',
  get at(): number {
    throw new Error(words);
  },
});
