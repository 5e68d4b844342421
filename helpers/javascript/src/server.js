/** Starts and ends a server. */

import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';

import { findBinary } from './binary.js';
import { Controls } from './controls.js';

const START_TIMEOUT = 60_000;
const STOP_TIMEOUT = 20_000;

/** Size of the end of the log that a server keeps for error messages, in characters. */
const MAX_LOG_LENGTH = 64 * 1024;

/**
 * The command that `holdfast run` runs. It prints the path of the kubeconfig, and ends when its standard input ends. The
 * server ends with it, even if the process of the test is killed.
 */
const HELPER = `printf '%s\\n' "$KUBECONFIG"; exec cat >/dev/null`;

/** A server with its objects in memory, on a free port. */
export class Server extends Controls {
  /**
   * @param {string} kubeconfig
   * @param {Child} child
   */
  constructor(kubeconfig, child) {
    super(kubeconfig);
    this._child = child;
  }

  log() {
    return this._child.log;
  }

  stop() {
    return this._child.stop();
  }
}

/**
 * Starts a server.
 *
 * @param {{ binary?: string, controllers?: string[], args?: string[] }} [options]
 * @returns {Promise<Server>}
 */
export async function startHoldfast({ binary, controllers = ['*'], args = [] } = {}) {
  const flags = ['--testing-endpoints=true', `--controllers=${controllers.join(',')}`, ...args];
  const child = new Child(findBinary(binary), ['run', ...flags, '--', 'sh', '-c', HELPER]);
  try {
    return new Server(await readFile(await child.firstLine(), 'utf8'), child);
  } catch (error) {
    child.process.kill('SIGKILL');
    await child.ended;
    throw error;
  }
}

class Child {
  /**
   * @param {string} program
   * @param {string[]} args
   */
  constructor(program, args) {
    this.log = '';
    this.output = '';
    this.process = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] });
    this.process.stdin.on('error', () => {});
    this.process.stderr.setEncoding('utf8').on('data', (text) => {
      this.log = (this.log + text).slice(-MAX_LOG_LENGTH);
    });
    /** @type {Promise<string>} */
    this.ended = new Promise((resolve) => {
      this.process.on('error', (error) => resolve(String(error)));
      this.process.on('close', (code, signal) => resolve(code === 0 ? '' : `exit status ${code ?? signal}`));
    });
  }

  /** @returns {Promise<string>} */
  firstLine() {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`Holdfast did not start within ${START_TIMEOUT} ms\n${this.log}`)),
        START_TIMEOUT,
      );
      this.process.stdout.setEncoding('utf8').on('data', (text) => {
        this.output += text;
        const end = this.output.indexOf('\n');
        if (end >= 0) {
          clearTimeout(timer);
          resolve(this.output.slice(0, end));
        }
      });
      this.ended.then((why) => {
        clearTimeout(timer);
        reject(new Error(`Holdfast did not start: ${why}\n${this.log}`));
      });
    });
  }

  async stop() {
    this.process.stdin.end();
    const timer = setTimeout(() => this.process.kill('SIGKILL'), STOP_TIMEOUT);
    const why = await this.ended;
    clearTimeout(timer);
    if (why) throw new Error(`Holdfast ended: ${why}\n${this.log}`);
  }
}
