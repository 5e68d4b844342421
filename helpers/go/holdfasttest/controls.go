package holdfasttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// controlTimeout is the time limit of a request to the endpoints for tests.
	controlTimeout = 2 * time.Minute

	// maxAnswerBytes is the maximum size of an answer.
	maxAnswerBytes = 64 << 20

	// TimelineLines is the number of lines that a failed test logs.
	TimelineLines = 50
)

// Controls controls a server that has the endpoints for tests (--testing-endpoints).
type Controls struct {
	config *rest.Config
	client *http.Client
	url    string
}

// NewControls returns the controls of the server that config names, for example that of an envtest.Environment.
func NewControls(config *rest.Config) (*Controls, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	url, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	return &Controls{config: config, client: client, url: strings.TrimSuffix(url.String(), "/") + "/testing/"}, nil
}

// Checkpoint is a kept state of all objects.
type Checkpoint struct {
	Name              string      `json:"name"`
	CreationTimestamp metav1.Time `json:"creationTimestamp"`
	ResourceVersion   string      `json:"resourceVersion"`
	Objects           int         `json:"objects"`
}

// Restored tells what a restore changed.
type Restored struct {
	ResourceVersion string `json:"resourceVersion"`
	Created         int    `json:"created"`
	Updated         int    `json:"updated"`
	Deleted         int    `json:"deleted"`
	Duration        string `json:"duration"`
}

// Watchers is the effect of a restore on open watches.
type Watchers string

const (
	// Differences sends the changes as events.
	Differences Watchers = "differences"
	// Expire sends the error 410 Expired.
	Expire Watchers = "expire"
)

// Keep keeps the current state of all objects as a checkpoint.
func (c *Controls) Keep(ctx context.Context, name string) (*Checkpoint, error) {
	kept := &Checkpoint{}
	return kept, c.send(ctx, http.MethodPost, "checkpoints", map[string]string{"name": name}, kept)
}

// Checkpoints returns all checkpoints.
func (c *Controls) Checkpoints(ctx context.Context) ([]Checkpoint, error) {
	list := struct{ Checkpoints []Checkpoint }{}
	err := c.send(ctx, http.MethodGet, "checkpoints", nil, &list)
	return list.Checkpoints, err
}

// Forget deletes a checkpoint.
func (c *Controls) Forget(ctx context.Context, name string) error {
	return c.send(ctx, http.MethodDelete, "checkpoints/"+url.PathEscape(name), nil, nil)
}

// Restore restores the state of a checkpoint.
func (c *Controls) Restore(ctx context.Context, name string, watchers Watchers) (*Restored, error) {
	restored := &Restored{}
	body := map[string]Watchers{"watchers": watchers}
	return restored, c.send(ctx, http.MethodPost, "checkpoints/"+url.PathEscape(name)+"/restore", body, restored)
}

// Isolate keeps the current state, and restores it when the test ends. It then also deletes all faults. Tests that share a
// server and call it must not run in parallel.
func (c *Controls) Isolate(t testing.TB) {
	t.Helper()
	name := "isolate-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if _, err := c.Keep(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
		defer cancel()
		if _, err := c.ClearFaults(ctx); err != nil {
			t.Error(err)
		}
		if _, err := c.Restore(ctx, name, Differences); err != nil {
			t.Error(err)
		}
		if err := c.Forget(ctx, name); err != nil {
			t.Error(err)
		}
	})
}

// Fork is another server in the process of the first one. It began with the state of a checkpoint.
type Fork struct {
	*Controls

	id         uint64
	kubeconfig []byte
	origin     *Controls
}

// Fork starts a server with the state of a checkpoint. It shares the objects until one of the servers changes them.
func (c *Controls) Fork(ctx context.Context, checkpoint string) (*Fork, error) {
	answer := struct {
		ID         uint64
		Kubeconfig string
	}{}
	path := "checkpoints/" + url.PathEscape(checkpoint) + "/fork"
	if err := c.send(ctx, http.MethodPost, path, nil, &answer); err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(answer.Kubeconfig))
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = c.config.QPS, c.config.Burst
	controls, err := NewControls(config)
	if err != nil {
		return nil, err
	}
	return &Fork{Controls: controls, id: answer.ID, kubeconfig: []byte(answer.Kubeconfig), origin: c}, nil
}

// Config returns the configuration of a client of the fork with all rights. Each call returns a copy.
func (f *Fork) Config() *rest.Config {
	return rest.CopyConfig(f.config)
}

// Kubeconfig returns the kubeconfig of a user of the fork with all rights.
func (f *Fork) Kubeconfig() []byte {
	return append([]byte{}, f.kubeconfig...)
}

// Stop ends the fork. It ends with the first server at the latest.
func (f *Fork) Stop(ctx context.Context) error {
	return f.origin.send(ctx, http.MethodDelete, "forks/"+strconv.FormatUint(f.id, 10), nil, nil)
}

// Advance moves the clock of the server forward.
func (c *Controls) Advance(ctx context.Context, by time.Duration) (*Clock, error) {
	clock := &Clock{}
	return clock, c.send(ctx, http.MethodPost, "clock", map[string]string{"advance": by.String()}, clock)
}

// Clock is the time of a server.
type Clock struct {
	// Now is the time of the server.
	Now metav1.MicroTime `json:"now"`
	// Advanced is the duration by which the server is ahead.
	Advanced metav1.Duration `json:"advanced"`
}

// Clock returns the time of the server.
func (c *Controls) Clock(ctx context.Context) (*Clock, error) {
	clock := &Clock{}
	return clock, c.send(ctx, http.MethodGet, "clock", nil, clock)
}

// Timeline returns the last lines of the timeline: requests with their clients, answers, and changed fields. An empty
// namespace selects all requests.
func (c *Controls) Timeline(ctx context.Context, namespace string, limit int) (string, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if namespace != "" {
		query.Set("namespace", namespace)
	}
	text, err := c.exchange(ctx, http.MethodGet, "timeline?"+query.Encode(), nil)
	return string(text), err
}

// ReportOnFailure logs the last lines of the timeline of a namespace if the test fails. An empty namespace selects all
// requests.
func (c *Controls) ReportOnFailure(t testing.TB, namespace string) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
		defer cancel()
		text, err := c.Timeline(ctx, namespace, TimelineLines)
		if err != nil {
			t.Logf("there is no timeline: %v", err)
			return
		}
		about := "all namespaces"
		if namespace != "" {
			about = "namespace " + namespace
		}
		t.Logf("timeline of %s:\n%s", about, text)
	})
}

// send sends a document, and decodes the answer into a value that is not nil.
func (c *Controls) send(ctx context.Context, method, path string, document, into any) error {
	var body []byte
	if document != nil {
		encoded, err := json.Marshal(document)
		if err != nil {
			return err
		}
		body = encoded
	}
	answer, err := c.exchange(ctx, method, path, body)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

// exchange returns the answer to a request. An error status is an *apierrors.StatusError.
func (c *Controls) exchange(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return nil, err
	}
	if response.StatusCode < http.StatusBadRequest {
		return answer, nil
	}
	status := metav1.Status{}
	if json.Unmarshal(answer, &status) == nil && status.Kind == "Status" {
		return nil, &apierrors.StatusError{ErrStatus: status}
	}
	return nil, fmt.Errorf("%s %s: %s: %.200s", method, request.URL.Path, response.Status, answer)
}
