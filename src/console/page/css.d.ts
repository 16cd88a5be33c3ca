/** Styles are imported for what they do to the page; the bundler gathers them. */
declare module '*.css';
