/** The part that Vitest and Jest share. */

import { CoreV1Api } from '@kubernetes/client-node';

import { TIMELINE_LINES } from './controls.js';
import { startHoldfast } from './server.js';

const START = 'test-start';

/** A server for the tests of a file or of a group of tests. */
export class Setup {
  /** @param {import('./index.js').Options} options */
  constructor(options) {
    this._options = options;
    /** @type {import('./server.js').Server | undefined} */
    this._server = undefined;
    /** @type {string | undefined} */
    this._namespace = undefined;
  }

  get server() {
    if (!this._server) throw new Error('the server runs only during tests');
    return this._server;
  }

  get kubeConfig() {
    return this.server.kubeConfig;
  }

  /** Creates a namespace for the current test, or returns it. */
  async namespace() {
    if (this._namespace === undefined) {
      const core = this.kubeConfig.makeApiClient(CoreV1Api);
      const created = await core.createNamespace({ body: { metadata: { generateName: 'test-' } } });
      this._namespace = created.metadata?.name ?? '';
    }
    return this._namespace;
  }

  async begin() {
    this._server = await startHoldfast(this._options);
  }

  async beforeTest() {
    await this.server.keep(START);
  }

  async afterTest() {
    this._namespace = undefined;
    await this.server.clearFaults();
    await this.server.restore(START);
    await this.server.forget(START);
  }

  async end() {
    await this._server?.stop();
    this._server = undefined;
  }

  /** Returns the last lines of the timeline of the test's namespace, with a title. */
  async report() {
    const about = this._namespace === undefined ? 'all namespaces' : `namespace ${this._namespace}`;
    try {
      return `Holdfast timeline of ${about}:\n${await this.server.timeline(this._namespace, TIMELINE_LINES)}`;
    } catch (error) {
      return `there is no timeline: ${error}`;
    }
  }
}
