// Package stream is what the clients of one Server-Sent Events stream share: the frames
// of a [Source], each read and rendered once, with a place in them for every client. How
// they get to a client is package edge's business.
package stream

import (
	"bytes"
	"context"
	"fmt"
	"strings"
)

// Frame is one event of a stream. IDs rise; Event and Data hold no carriage
// return, Event no line feed.
type Frame struct {
	ID    int64
	Event string
	Data  []byte
	text  []byte // rendered before, by [Rings]
}

// Source is where a stream gets its frames from.
type Source struct {
	// Head returns the id of the newest frame, 0 when there is none.
	Head func(context.Context) (int64, error)
	// Next returns frames behind the id after, in order and without a gap; none
	// when there is nothing new. It may return a part: it is asked again.
	Next func(ctx context.Context, after int64) ([]Frame, error)
	// Wake is received from when Next may have something new. It may be spurious.
	Wake <-chan struct{}
	// Check, unless nil, is asked at each heartbeat; an error ends the stream.
	Check func(context.Context) error
	// Close, unless nil, is called once when the stream has ended.
	Close func()
}

// Render writes frames in the format of the HTML standard, section 9.2, and refuses
// those that cannot follow the id after.
func Render(list []Frame, after int64) ([]byte, error) {
	var b bytes.Buffer
	for _, f := range list {
		if f.ID <= after || strings.ContainsAny(f.Event, "\r\n") || bytes.ContainsRune(f.Data, '\r') {
			return nil, fmt.Errorf("stream: frame %d cannot follow %d in a stream", f.ID, after)
		}
		after = f.ID
		if f.text == nil {
			f.text = f.render()
		}
		b.Write(f.text)
	}
	return b.Bytes(), nil
}

func (f *Frame) render() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "id: %d\nevent: %s\n", f.ID, f.Event)
	for line := range bytes.SplitSeq(f.Data, []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}
