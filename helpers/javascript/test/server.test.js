import { spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { CoreV1Api } from '@kubernetes/client-node';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { ApiError, findBinary, startHoldfast } from 'holdfast-testing';
import { useHoldfast } from 'holdfast-testing/vitest';

const started = [];

async function start(options) {
  const server = await startHoldfast(options);
  started.push(server);
  return server;
}

afterEach(async () => {
  vi.unstubAllEnvs();
  await Promise.all(started.splice(0).map((server) => server.stop()));
});

function core(controls) {
  return controls.kubeConfig.makeApiClient(CoreV1Api);
}

async function create(controls, name, namespace = 'default') {
  await core(controls).createNamespacedConfigMap({ namespace, body: { metadata: { name } } });
}

async function names(controls) {
  const { items } = await core(controls).listNamespacedConfigMap({ namespace: 'default' });
  return items.map((item) => item.metadata.name).filter((name) => name !== 'kube-root-ca.crt');
}

test('servers have objects of their own', async () => {
  const [first, second] = await Promise.all([start(), start()]);
  await create(first, 'settings');
  expect(await names(first)).toEqual(['settings']);
  expect(await names(second)).toEqual([]);
});

test('a stopped server is gone', async () => {
  const server = await startHoldfast();
  await server.stop();
  await server.stop();
  await expect(server.clock()).rejects.toThrow('ECONNREFUSED');
});

test('an invalid flag is part of the error', async () => {
  await expect(startHoldfast({ args: ['--no-such-flag'] })).rejects.toThrow('--no-such-flag');
});

test('a server ends with a killed process', async () => {
  const script = `import { startHoldfast } from 'holdfast-testing'; console.log((await startHoldfast()).url)`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  const url = await new Promise((resolve) => child.stdout.setEncoding('utf8').once('data', resolve));
  child.kill('SIGKILL');
  const { hostname, port } = new URL(url.trim());
  const refuses = () =>
    new Promise((resolve) => {
      const socket = connect(Number(port), hostname, () => resolve(false));
      socket.on('error', (error) => resolve(error.code === 'ECONNREFUSED'));
      socket.on('close', () => resolve(false));
      socket.setTimeout(1000, () => socket.destroy());
    });
  await vi.waitUntil(refuses, { timeout: 30_000, interval: 50 });
});

test('a fault fires until its count', async () => {
  const server = await start();
  const match = { verbs: ['create'], group: '', resource: 'configmaps' };
  const { id } = await server.addFault({ match, count: 1, action: { error: { code: 503 } } });
  await expect(create(server, 'settings')).rejects.toMatchObject({ code: 503 });
  await create(server, 'settings');
  expect((await server.faults()).map((fault) => fault.id)).toEqual([id]);
  expect((await server.removeFault(id)).status).toEqual({ matched: 2, fired: 1 });
});

test('an invalid fault is an error of the API', async () => {
  const server = await start();
  const error = await server.addFault({ action: { error: { code: 200 } } }).catch((error) => error);
  expect(error).toBeInstanceOf(ApiError);
  expect(error).toMatchObject({ code: 400, message: expect.stringContaining('code must be') });
});

test('a restore deletes later objects', async () => {
  const server = await start({ controllers: [] });
  await server.keep('start');
  await create(server, 'settings');
  // The server may have created objects of its own since the checkpoint.
  expect((await server.restore('start', 'expire')).deleted).toBeGreaterThanOrEqual(1);
  expect(await names(server)).toEqual([]);
  await server.forget('start');
  expect(await server.checkpoints()).toEqual([]);
});

test('a fork has the state of its checkpoint', async () => {
  const server = await start({ controllers: [] });
  await create(server, 'before');
  await server.keep('start');
  await create(server, 'after');
  const fork = await server.fork('start');
  expect(await names(fork)).toEqual(['before']);
  await create(fork, 'of-fork');
  expect(await names(server)).toEqual(['after', 'before']);
  await fork.stop();
  await expect(fork.clock()).rejects.toThrow();
});

test('advance moves the clock', async () => {
  const server = await start();
  expect(await server.advance('90m')).toMatchObject({ advanced: '1h30m0s' });
  expect(Date.parse((await server.clock()).now) - Date.now()).toBeGreaterThan(80 * 60_000);
});

describe('useHoldfast', () => {
  const holdfast = useHoldfast();

  test.each([1, 2])('test %i begins with the same state', async () => {
    expect(await names(holdfast.server)).toEqual([]);
    expect(await holdfast.server.faults()).toEqual([]);
    await create(holdfast.server, 'settings');
    await holdfast.server.addFault({ skip: 1000, action: { error: { code: 500 } } });
  });

  test('the timeline has the namespace of the test', async () => {
    await create(holdfast.server, 'mine', await holdfast.namespace());
    await create(holdfast.server, 'other');
    const text = await holdfast.server.timeline(await holdfast.namespace());
    expect(text).toContain('mine');
    expect(text).not.toContain('other');
  });
});

test('the binary is found in order', () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-'));
  const [explicit, variable, path] = ['explicit', 'variable', 'path/holdfast'].map((name) => {
    const file = join(folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, '#!/bin/sh\n');
    chmodSync(file, 0o700);
    return file;
  });
  vi.stubEnv('PATH', dirname(path));
  vi.stubEnv('HOLDFAST', variable);
  expect(findBinary(explicit)).toBe(explicit);
  expect(findBinary()).toBe(variable);
  vi.stubEnv('HOLDFAST', '');
  expect(findBinary()).toBe(path);
  vi.stubEnv('PATH', folder);
  expect(() => findBinary()).toThrow('HOLDFAST');
  expect(() => findBinary(join(folder, 'missing'))).toThrow('missing');
});
