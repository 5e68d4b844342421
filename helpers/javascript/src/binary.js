/** Finds the binary. */

import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join, resolve, sep } from 'node:path';

/** Environment variable with the path of the binary. */
const VARIABLE = 'HOLDFAST';

/**
 * Returns the path of the binary: `explicit`, the value of HOLDFAST, or the first one in PATH.
 *
 * @param {string} [explicit]
 * @returns {string}
 */
export function findBinary(explicit) {
  for (const path of [explicit, process.env[VARIABLE]]) {
    if (path) {
      const found = path.includes(sep) ? resolve(path) : inPath(path);
      if (!found || !isExecutable(found)) throw new Error(`${path} is not an executable file`);
      return found;
    }
  }
  const found = inPath('holdfast');
  if (!found) throw new Error(`there is no holdfast: set ${VARIABLE} to its path, or add its directory to PATH`);
  return found;
}

/** @param {string} name */
function inPath(name) {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

/** @param {string} path */
function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
