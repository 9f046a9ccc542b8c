package reporter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"countersign/contextclient/outbox"
)

// BridgeReceipt is what the server says of a transition that a bridge has seen.
type BridgeReceipt struct {
	ID            string    `json:"id"`
	Kind          string    `json:"kind"`
	Digest        string    `json:"digest"`
	RecordedAt    time.Time `json:"recordedAt"`
	EvidenceClass string    `json:"evidenceClass"`
}

// RecordTransition reports a transition through the outbox and returns its receipt, also as the bytes that the server
// gave. Its errors are those of [outbox.Outbox.Deliver].
func (p *Place) RecordTransition(ctx context.Context, kind, digest string) ([]byte, *BridgeReceipt, error) {
	body, err := json.Marshal(map[string]string{"kind": kind, "digest": digest})
	if err != nil {
		return nil, nil, err
	}
	e := outbox.Entry{Key: outbox.NewKey(), Path: bridgePath, Body: body, By: p.by}
	var wire struct{ Receipt json.RawMessage }
	var r BridgeReceipt
	err = p.Box.Deliver(ctx, e, func(ctx context.Context, e outbox.Entry) (outbox.Answer, error) {
		a, err := p.Send(ctx, e)
		if err != nil || a.Status >= 300 {
			return a, err
		}
		if json.Unmarshal(p.answers.body, &wire) != nil || json.Unmarshal(wire.Receipt, &r) != nil || r.Kind != kind || r.Digest != digest {
			return outbox.Answer{}, errors.New("the server answered to something else")
		}
		return a, nil
	})
	if err != nil {
		return nil, nil, err
	}
	return wire.Receipt, &r, nil
}

// answers is a transport that keeps the newest answer of the client, whose methods do not know bridges. It is for
// one request after the other.
type answers struct{ body []byte }

// maxAnswer is far above an answer to a report.
const maxAnswer = 64 << 10

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(a.body))
	return resp, nil
}
