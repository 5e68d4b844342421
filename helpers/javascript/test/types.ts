// The compiler checks the types of the package with this file. It does not run.

import { type Fault, Controls, findBinary, startHoldfast } from 'holdfast-testing';
import { useHoldfast as useInJest } from 'holdfast-testing/jest';
import { useHoldfast } from 'holdfast-testing/vitest';

const fault: Fault = { match: { verbs: ['update'] }, count: 1, action: { error: { code: 409 } } };
// @ts-expect-error 200 is not an error.
export const invalid: Fault = { action: { error: { code: 200 } } };

export async function check(): Promise<number> {
  const server = await startHoldfast({ binary: findBinary(), controllers: [], args: ['--v=1'] });
  const controls: Controls = server;
  const { id, status } = await controls.addFault(fault);
  const fork = await server.fork((await server.keep('start')).name);
  await fork.stop();
  await server.restore('start', 'expire');
  const text: string = await server.timeline(await useHoldfast().namespace(), 5);
  useInJest({ args: [text] }).kubeConfig.getCurrentCluster();
  await server.stop();
  return id + status.fired;
}
