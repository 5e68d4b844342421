/** Client of the endpoints for tests: faults, checkpoints, forks, clock and timeline. */

import { request } from 'node:https';
import { KubeConfig } from '@kubernetes/client-node';

/** Time limit of a request in milliseconds. */
const TIMEOUT = 120_000;

/** Number of lines of the timeline that a failed test prints. */
export const TIMELINE_LINES = 50;

/** Answer with an error status. */
export class ApiError extends Error {
  /**
   * @param {number} code
   * @param {string} message
   */
  constructor(code, message) {
    super(`${code}: ${message}`);
    this.name = 'ApiError';
    this.code = code;
  }
}

/** Controls of a server that has the endpoints for tests (--testing-endpoints). */
export class Controls {
  /** @param {string} kubeconfig */
  constructor(kubeconfig) {
    this.kubeconfig = kubeconfig;
    this.kubeConfig = new KubeConfig();
    this.kubeConfig.loadFromString(kubeconfig);
    const cluster = this.kubeConfig.getCurrentCluster();
    if (!cluster) throw new Error('the kubeconfig has no current cluster');
    this.url = cluster.server;
  }

  /** @param {string} name */
  keep(name) {
    return this._send('POST', 'checkpoints', { name });
  }

  async checkpoints() {
    return (await this._send('GET', 'checkpoints')).checkpoints;
  }

  /** @param {string} name */
  async forget(name) {
    await this._send('DELETE', `checkpoints/${encodeURIComponent(name)}`);
  }

  /**
   * @param {string} name
   * @param {'differences' | 'expire'} [watchers]
   */
  restore(name, watchers = 'differences') {
    return this._send('POST', `checkpoints/${encodeURIComponent(name)}/restore`, { watchers });
  }

  /** @param {string} checkpoint */
  async fork(checkpoint) {
    const answer = await this._send('POST', `checkpoints/${encodeURIComponent(checkpoint)}/fork`);
    return new Fork(answer.kubeconfig, answer.id, this);
  }

  /** @param {object} fault */
  addFault(fault) {
    return this._send('POST', 'faults', fault);
  }

  async faults() {
    return (await this._send('GET', 'faults')).faults;
  }

  /** @param {number} id */
  fault(id) {
    return this._send('GET', `faults/${id}`);
  }

  /** @param {number} id */
  removeFault(id) {
    return this._send('DELETE', `faults/${id}`);
  }

  async clearFaults() {
    return (await this._send('DELETE', 'faults')).faults;
  }

  /** @param {string} by */
  advance(by) {
    return this._send('POST', 'clock', { advance: by });
  }

  clock() {
    return this._send('GET', 'clock');
  }

  /**
   * @param {string} [namespace]
   * @param {number} [limit]
   */
  timeline(namespace = '', limit = TIMELINE_LINES) {
    const query = new URLSearchParams({ limit: String(limit) });
    if (namespace) query.set('namespace', namespace);
    return this._exchange('GET', `timeline?${query}`);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {object} [document]
   */
  async _send(method, path, document) {
    return JSON.parse(await this._exchange(method, path, document));
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {object} [document]
   * @returns {Promise<string>}
   */
  async _exchange(method, path, document) {
    /** @type {import('node:https').RequestOptions} */
    const options = { method, timeout: TIMEOUT, agent: false, headers: { 'content-type': 'application/json' } };
    await this.kubeConfig.applyToHTTPSOptions(options);
    options.agent = false;
    return new Promise((resolve, reject) => {
      const sent = request(`${this.url}/testing/${path}`, options, (response) => {
        /** @type {Buffer[]} */
        const parts = [];
        response.on('data', (part) => parts.push(part));
        response.on('error', reject);
        response.on('end', () => {
          const text = Buffer.concat(parts).toString();
          const code = response.statusCode ?? 0;
          if (code < 400) resolve(text);
          else reject(new ApiError(code, message(text)));
        });
      });
      sent.on('timeout', () => sent.destroy(new Error(`no answer within ${TIMEOUT} ms`)));
      sent.on('error', reject);
      sent.end(document === undefined ? undefined : JSON.stringify(document));
    });
  }
}

/** Another server in the process of the first one. It began with the state of a checkpoint. */
export class Fork extends Controls {
  /**
   * @param {string} kubeconfig
   * @param {number} id
   * @param {Controls} origin
   */
  constructor(kubeconfig, id, origin) {
    super(kubeconfig);
    this._id = id;
    this._origin = origin;
  }

  async stop() {
    await this._origin._send('DELETE', `forks/${this._id}`);
  }
}

/** @param {string} text */
function message(text) {
  try {
    return JSON.parse(text).message ?? text;
  } catch {
    return text.slice(0, 200);
  }
}
