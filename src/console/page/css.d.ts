/** Lets the page import style sheets for their effect; the bundler collects them. */
declare module '*.css';
