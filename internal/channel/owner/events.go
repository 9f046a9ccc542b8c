package owner

import (
	"context"
	"encoding/json"

	"countersign/internal/channel/edge"
)

// events streams the run's signed events. At each heartbeat the owner's session
// is looked at again.
func (o *owner) events(ctx context.Context, in *ByID) (edge.Source, error) {
	if _, err := o.Gateway.Head(ctx, in.ID); err != nil {
		return edge.Source{}, err
	}
	session, _ := edge.SessionFrom(ctx)
	stream := o.streams.Share(in.ID, func() edge.Source { return o.stream(in.ID) })
	stream.Check = func(ctx context.Context) error { return o.Owners.Recheck(ctx, session) }
	return stream, nil
}

// stream is what everybody who watches a run shares.
func (o *owner) stream(id string) edge.Source {
	watcher := o.Gateway.Watch(id)
	return edge.Source{
		Head:  func(ctx context.Context) (int64, error) { return o.Gateway.Head(ctx, id) },
		Next:  func(ctx context.Context, after int64) ([]edge.Frame, error) { return o.frames(ctx, id, after) },
		Wake:  watcher.C,
		Close: watcher.Close,
	}
}

// frames reads events behind a sequence.
func (o *owner) frames(ctx context.Context, id string, after int64) ([]edge.Frame, error) {
	events, _, err := o.Gateway.Events(ctx, id, after)
	if err != nil {
		return nil, err
	}
	frames := make([]edge.Frame, 0, len(events))
	for _, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		frames = append(frames, edge.Frame{ID: e.Sequence, Event: e.Type, Data: data})
	}
	return frames, nil
}
