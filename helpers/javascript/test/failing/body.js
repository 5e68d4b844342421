import { CoreV1Api } from '@kubernetes/client-node';

/** Creates objects in two namespaces, and fails. */
export async function fail(holdfast) {
  const core = holdfast.kubeConfig.makeApiClient(CoreV1Api);
  const namespace = await holdfast.namespace();
  await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'mine' } } });
  await core.createNamespacedConfigMap({ namespace: 'default', body: { metadata: { name: 'other' } } });
  throw new Error('it fails on purpose');
}
