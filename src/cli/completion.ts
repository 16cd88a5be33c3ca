/**
 * Completion in shells: a script for the shell, which asks the hidden command `complete` for verbs, options and words.
 */
import tab from '@bomb.sh/tab/commander';
import type { Command } from 'commander';

/** Adds both commands to a program that has all others. */
export function addCompletion(program: Command): void {
  tab(program, { completionCommandName: 'completion' });
}
