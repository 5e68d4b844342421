import { CoreV1Api } from '@kubernetes/client-node';
import { expect, test } from '@jest/globals';
import { useHoldfast } from 'holdfast-testing/jest';

const holdfast = useHoldfast();

test.each([1, 2])('test %i begins with the same state', async () => {
  const core = holdfast.kubeConfig.makeApiClient(CoreV1Api);
  const namespace = await holdfast.namespace();
  const { items } = await core.listNamespace();
  expect(items.filter(({ metadata }) => metadata.name.startsWith('test-')).map(({ metadata }) => metadata.name)).toEqual([namespace]);
  await core.createNamespacedConfigMap({ namespace: 'default', body: { metadata: { name: 'settings' } } });
  expect(await holdfast.server.timeline(namespace)).toContain(namespace);
});
