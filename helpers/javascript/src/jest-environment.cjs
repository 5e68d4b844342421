/** Environment of Jest that prints the timeline of a failed test. */

const { TestEnvironment } = require('jest-environment-node');

class HoldfastEnvironment extends TestEnvironment {
  /** @param {{ name: string }} event */
  async handleTestEvent(event) {
    // It comes before the hooks after the test.
    if (event.name !== 'test_fn_failure') return;
    const setups = /** @type {any} */ (this.global)[Symbol.for('holdfast.setups')] ?? [];
    for (const setup of setups) {
      console.error(await setup.report());
    }
  }
}

module.exports = HoldfastEnvironment;
