/**
 * Keys that were traced before, kept in the `sessionStorage` of this tab.
 */
import { signal } from '@preact/signals';

const place = 'ocpi-hub.traced';
const recentMax = 8;

/** Newest first. */
export const recentKeys = signal<readonly string[]>(kept());

function kept(): string[] {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(place) ?? '[]');
    return Array.isArray(found) ? found.filter((one) => typeof one === 'string') : [];
  } catch {
    return [];
  }
}

export function remember(key: string): void {
  recentKeys.value = [key, ...recentKeys.value.filter((one) => one !== key)].slice(0, recentMax);
  sessionStorage.setItem(place, JSON.stringify(recentKeys.value));
}
