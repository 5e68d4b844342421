package holdfasttest

import (
	"context"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is a rule that causes an error, a delay or the end of a watch.
type Fault struct {
	// Match selects requests. If it is empty, it selects all of them.
	Match Match `json:"match,omitzero"`
	// Skip is the number of matching requests that pass first.
	Skip uint64 `json:"skip,omitempty"`
	// Count is the maximum number of times that the fault fires. 0 is no maximum.
	Count uint64 `json:"count,omitempty"`
	// Probability is from 0 to 1. Nil is 1.
	Probability *float64 `json:"probability,omitempty"`
	// Seed is the seed of the choices of Probability.
	Seed *uint64 `json:"seed,omitempty"`
	// Action is the effect. Exactly one of its fields is set.
	Action Action `json:"action"`
}

// Match selects requests. A field without a value selects every value.
type Match struct {
	Verbs       []string `json:"verbs,omitempty"`
	Group       *string  `json:"group,omitempty"`
	Resource    string   `json:"resource,omitempty"`
	Subresource *string  `json:"subresource,omitempty"`
	Namespace   string   `json:"namespace,omitempty"`
	Name        string   `json:"name,omitempty"`
	User        string   `json:"user,omitempty"`
	// CredentialID is the ID of a token or certificate.
	CredentialID string `json:"credentialId,omitempty"`
	// UserAgent is a part of the header.
	UserAgent            string `json:"userAgent,omitempty"`
	WebhookConfiguration string `json:"webhookConfiguration,omitempty"`
	Webhook              string `json:"webhook,omitempty"`
}

// Action is the effect of a fault.
type Action struct {
	// Error fails the request before its handler.
	Error *ErrorAction `json:"error,omitempty"`
	// TimeoutAfterWrite stores the write and answers with 504.
	TimeoutAfterWrite *struct{} `json:"timeoutAfterWrite,omitempty"`
	// Latency delays the request.
	Latency *DelayAction `json:"latency,omitempty"`
	// Watch ends or delays a watch.
	Watch *WatchAction `json:"watch,omitempty"`
	// WebhookUnavailable fails calls of admission webhooks.
	WebhookUnavailable *struct{} `json:"webhookUnavailable,omitempty"`
	// TokenExpired rejects the credentials of a user.
	TokenExpired *struct{} `json:"tokenExpired,omitempty"`
}

// ErrorAction is an error of the API.
type ErrorAction struct {
	// Code is 409, 429, 500, 503 or 504.
	Code              int    `json:"code"`
	Message           string `json:"message,omitempty"`
	RetryAfterSeconds *int   `json:"retryAfterSeconds,omitempty"`
}

// DelayAction is a delay.
type DelayAction struct {
	Duration metav1.Duration `json:"duration"`
}

// WatchAction is the effect on a watch. Exactly one field is set.
type WatchAction struct {
	// End ends the watch.
	End *AfterEvents `json:"end,omitempty"`
	// Expired ends the watch with the error 410.
	Expired *AfterEvents `json:"expired,omitempty"`
	// Lag delays each event.
	Lag *DelayAction `json:"lag,omitempty"`
}

// AfterEvents is the number of events that a watch gets first.
type AfterEvents struct {
	AfterEvents int `json:"afterEvents"`
}

// FaultReport is a fault with its counters.
type FaultReport struct {
	Fault
	ID     uint64 `json:"id"`
	Status struct {
		// Matched is the number of requests that matched.
		Matched uint64 `json:"matched"`
		// Fired is the number of requests with the effect.
		Fired uint64 `json:"fired"`
	} `json:"status"`
}

// Fail returns the action that fails requests with an error.
func Fail(code int) Action {
	return Action{Error: &ErrorAction{Code: code}}
}

// AddFault adds a fault.
func (c *Controls) AddFault(ctx context.Context, fault Fault) (*FaultReport, error) {
	added := &FaultReport{}
	return added, c.send(ctx, http.MethodPost, "faults", fault, added)
}

// Faults returns all faults.
func (c *Controls) Faults(ctx context.Context) ([]FaultReport, error) {
	list := struct{ Faults []FaultReport }{}
	err := c.send(ctx, http.MethodGet, "faults", nil, &list)
	return list.Faults, err
}

// GetFault returns the fault with this ID.
func (c *Controls) GetFault(ctx context.Context, id uint64) (*FaultReport, error) {
	found := &FaultReport{}
	return found, c.send(ctx, http.MethodGet, fmt.Sprintf("faults/%d", id), nil, found)
}

// RemoveFault deletes the fault with this ID, and returns its last counters.
func (c *Controls) RemoveFault(ctx context.Context, id uint64) (*FaultReport, error) {
	removed := &FaultReport{}
	return removed, c.send(ctx, http.MethodDelete, fmt.Sprintf("faults/%d", id), nil, removed)
}

// ClearFaults deletes all faults, and returns their last counters.
func (c *Controls) ClearFaults(ctx context.Context) ([]FaultReport, error) {
	list := struct{ Faults []FaultReport }{}
	err := c.send(ctx, http.MethodDelete, "faults", nil, &list)
	return list.Faults, err
}
