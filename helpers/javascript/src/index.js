/** Starts Holdfast, a Kubernetes-compatible API server, for tests. */

export { findBinary } from './binary.js';
export { ApiError, Controls, Fork, TIMELINE_LINES } from './controls.js';
export { Server, startHoldfast } from './server.js';
