package owner

import (
	"context"
	"encoding/json"

	"countersign/internal/channel/edge"
	"countersign/internal/channel/stream"
)

// events streams the run's signed events. At each heartbeat the owner's session
// is looked at again.
func (o *owner) events(ctx context.Context, in *ByID) (stream.Source, error) {
	if _, err := o.Gateway.Head(ctx, in.ID); err != nil {
		return stream.Source{}, err
	}
	session, _ := edge.SessionFrom(ctx)
	shared := o.streams.Share(in.ID, func() stream.Source { return o.watch(in.ID) })
	shared.Check = func(ctx context.Context) error { return o.Owners.Recheck(ctx, session) }
	return shared, nil
}

// watch is what everybody who watches a run shares.
func (o *owner) watch(id string) stream.Source {
	watcher := o.Gateway.Watch(id)
	return stream.Source{
		Head:  func(ctx context.Context) (int64, error) { return o.Gateway.Head(ctx, id) },
		Next:  func(ctx context.Context, after int64) ([]stream.Frame, error) { return o.frames(ctx, id, after) },
		Wake:  watcher.C,
		Close: watcher.Close,
	}
}

// frames reads events behind a sequence.
func (o *owner) frames(ctx context.Context, id string, after int64) ([]stream.Frame, error) {
	events, _, err := o.Gateway.Events(ctx, id, after)
	if err != nil {
		return nil, err
	}
	frames := make([]stream.Frame, 0, len(events))
	for _, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		frames = append(frames, stream.Frame{ID: e.Sequence, Event: e.Type, Data: data})
	}
	return frames, nil
}
