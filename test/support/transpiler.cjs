/**
 * What TypeScript makes of a file, kept on the disk: nearly each of the hundreds of processes that a run of the tests starts loads the
 * whole hub, and transpiling it took most of their time. Kept by its content, so that it is never out of date.
 */
const { createHash, randomUUID } = require('node:crypto');
const { mkdirSync, readFileSync, renameSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');
const ts = require('typescript');

const directory = join(__dirname, '..', '..', 'node_modules', '.cache', 'transpiled');

exports.create = ({ service }) => {
  // Everything here is a module; a single file does not tell.
  const compilerOptions = { ...service.config.options, module: ts.ModuleKind.ESNext, noEmit: false };
  const version = JSON.stringify([ts.version, compilerOptions]);
  mkdirSync(directory, { recursive: true });

  function transpile(input, { fileName }) {
    const name = createHash('sha256')
      .update(version)
      .update('\0')
      .update(fileName)
      .update('\0')
      .update(input)
      .digest('hex');
    const kept = join(directory, name);
    const known = read(kept);
    if (known) return known;
    const { outputText, sourceMapText } = ts.transpileModule(input, { fileName, compilerOptions });
    const made = { outputText, sourceMapText };
    // Whole or not there, whoever else writes it at the same time.
    const written = `${kept}.${randomUUID()}`;
    writeFileSync(written, JSON.stringify(made));
    renameSync(written, kept);
    return made;
  }

  return { transpile };
};

function read(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return null;
  }
}
