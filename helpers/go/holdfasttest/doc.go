// Package holdfasttest starts Holdfast, a Kubernetes-compatible API server, for the tests of controllers.
//
// [Start] starts a server for one test, [New] one for several tests. Both keep all objects in memory and use a free port, so
// tests can run in parallel. [Prepare] makes an envtest.Environment of controller-runtime use Holdfast.
//
// [Controls] causes faults, restores states, forks servers, moves the clock and reads the timeline of requests.
package holdfasttest
