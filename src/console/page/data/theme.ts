/**
 * The theme: light, dark, or the system's. Kept in `localStorage`, so that it outlives the browser session.
 */
import { effect, signal } from '@preact/signals';

export const themes = ['auto', 'light', 'dark'] as const;
export type Theme = (typeof themes)[number];

const place = 'ocpi-hub.theme';

export const theme = signal<Theme>(themes.find((one) => one === localStorage.getItem(place)) ?? 'auto');

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  localStorage.setItem(place, theme.value);
});
