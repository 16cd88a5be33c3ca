/** Entry point of the portal of partners: loads the styles and renders it. */
import { render } from 'preact';
import { Portal } from './pages/portal.tsx';
import './style/tokens.css';
import './style/base.css';
import './style/parts.css';
import './style/pages.css';
import './data/theme.ts';

const root = document.getElementById('portal');
if (root) render(<Portal />, root);
