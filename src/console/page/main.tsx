/** Entry point of the operators' console: loads the styles and renders the shell. */
import { render } from 'preact';
import { Shell } from './shell.tsx';
import './style/tokens.css';
import './style/base.css';
import './style/parts.css';
import './style/pages.css';
import './data/theme.ts';

const root = document.getElementById('console');
if (root) render(<Shell />, root);
