// Tests a controller with Holdfast.

import { CoreV1Api } from '@kubernetes/client-node';
import { expect, test } from 'vitest';
import { useHoldfast } from 'holdfast-testing/vitest';

// One pass of a controller: it labels each ConfigMap, and tries again after a conflict.
async function labelConfigMaps(api, namespace) {
  const { items } = await api.listNamespacedConfigMap({ namespace, labelSelector: 'seen!=true' });
  for (let settings of items) {
    const { name } = settings.metadata;
    for (let done = false; !done; ) {
      settings.metadata.labels = { seen: 'true' };
      try {
        await api.replaceNamespacedConfigMap({ name, namespace, body: settings });
        done = true;
      } catch (error) {
        if (error.code !== 409) throw error;
        settings = await api.readNamespacedConfigMap({ name, namespace });
      }
    }
  }
}

const holdfast = useHoldfast();

test('labeler retries after a conflict', async () => {
  const { server, kubeConfig } = holdfast;
  const namespace = await holdfast.namespace();
  const api = kubeConfig.makeApiClient(CoreV1Api);
  await api.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'settings' } } });
  // The first update fails with a conflict.
  const fault = await server.addFault({
    match: { verbs: ['update'], resource: 'configmaps' },
    count: 1,
    action: { error: { code: 409 } },
  });

  await labelConfigMaps(api, namespace);

  const labelled = await api.readNamespacedConfigMap({ name: 'settings', namespace });
  expect(labelled.metadata.labels).toEqual({ seen: 'true' });
  expect((await server.fault(fault.id)).status.fired).toBe(1);
});
