/**
 * The theme: light, dark, or the system's. One that was chosen is kept in `localStorage`, so that it outlives the browser session.
 */
import { effect, signal } from '@preact/signals';

export const themes = ['auto', 'light', 'dark'] as const;
export type Theme = (typeof themes)[number];

const place = 'ocpi-hub.theme';

export const theme = signal<Theme>(themes.find((one) => one === localStorage.getItem(place)) ?? 'auto');

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  if (theme.value !== (localStorage.getItem(place) ?? 'auto')) localStorage.setItem(place, theme.value);
});
