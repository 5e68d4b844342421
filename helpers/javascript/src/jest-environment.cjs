/** Environment of Jest that prints the timeline of a failed test. */

const { TestEnvironment } = require('jest-environment-node');

class HoldfastEnvironment extends TestEnvironment {
  /** @param {{ name: string }} event */
  async handleTestEvent(event) {
    // It comes before the hooks after the test.
    if (event.name !== 'test_fn_failure') return;
    for (const setup of this.global[Symbol.for('holdfast.setups')] ?? []) {
      console.error(await setup.report());
    }
  }
}

module.exports = HoldfastEnvironment;
