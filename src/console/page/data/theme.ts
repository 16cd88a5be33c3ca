/**
 * Light, dark, or as the system says. A matter of taste, so it outlives the browser session.
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
