/**
 * The operators' console: signed in, the pages; else the sign-in.
 */
import { render } from 'preact';
import { Shell } from './shell.tsx';
import './style/tokens.css';
import './style/base.css';
import './style/parts.css';
import './style/pages.css';
import './data/theme.ts';

const root = document.getElementById('console');
if (root) render(<Shell />, root);
