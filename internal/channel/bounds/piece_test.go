package bounds_test

import (
	"net/http"
	"testing"
	"time"

	"countersign/internal/channel/bounds"
)

// slow is an answer of which each write is read just before its deadline.
type slow struct {
	http.ResponseWriter
	sizes     []int
	deadlines []time.Time
	reading   []time.Time
}

func (s *slow) SetReadDeadline(d time.Time) error {
	s.reading = append(s.reading, d)
	return nil
}

func (s *slow) Write(b []byte) (int, error) {
	s.sizes = append(s.sizes, len(b))
	return len(b), nil
}

func (s *slow) SetWriteDeadline(d time.Time) error {
	s.deadlines = append(s.deadlines, d)
	return nil
}

// TestLongAnswers have a time of their own for each piece, and none is later than the
// end of the server. A short one keeps the deadline that it has.
func TestLongAnswers(t *testing.T) {
	var all bounds.Exchanges
	out := &slow{}
	x := all.Enter(out, false)
	if n, err := x.Write(make([]byte, bounds.Piece)); n != bounds.Piece || err != nil || len(out.sizes) != 1 || len(out.deadlines) != 0 {
		t.Errorf("one piece: %d, %v, %v, %v", n, err, out.sizes, out.deadlines)
	}
	*out = slow{}
	before := time.Now()
	if n, err := x.Write(make([]byte, 3*bounds.Piece+1)); n != 3*bounds.Piece+1 || err != nil || len(out.sizes) != 4 || out.sizes[3] != 1 || len(out.deadlines) != 3 {
		t.Fatalf("%d, %v, %v, %v", n, err, out.sizes, out.deadlines)
	}
	for _, d := range out.deadlines {
		if d.Before(before.Add(bounds.PieceTimeout)) {
			t.Errorf("deadline %v", d.Sub(before))
		}
	}
	*out = slow{}
	own := time.Now().Add(time.Millisecond)
	stream := all.Enter(out, false)
	if err := stream.SetWriteDeadline(own); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Write(make([]byte, 3*bounds.Piece)); err != nil || len(out.deadlines) != 1 || out.deadlines[0] != own {
		t.Errorf("a stream's own deadline: %v, %v", err, out.deadlines)
	}
	end := time.Now().Add(time.Second)
	all.End(end)
	*out = slow{}
	if _, err := x.Write(make([]byte, 2*bounds.Piece)); err != nil || len(out.deadlines) != 1 || out.deadlines[0] != end {
		t.Errorf("at the end: %v, %v, want %v", err, out.deadlines, end)
	}
	if n, err := x.Write(nil); n != 0 || err != nil {
		t.Errorf("nothing: %d, %v", n, err)
	}
}

// A body that may take longer than others takes no longer than the end of the server
// allows, whether its time is set before the end or after it.
func TestLongBodies(t *testing.T) {
	var all bounds.Exchanges
	out := &slow{}
	x := all.Enter(out, true)
	later := time.Now().Add(time.Hour)
	if err := x.SetReadDeadline(later); err != nil || len(out.reading) != 2 || out.reading[1] != later {
		t.Fatalf("%v, deadlines %v, want the second to be %v", err, out.reading, later)
	}
	all.End(time.Now().Add(time.Minute))
	if len(out.reading) != 3 || time.Until(out.reading[2]) > bounds.EndingBody {
		t.Fatalf("at the end: deadlines %v", out.reading)
	}
	if err := x.SetReadDeadline(later); err != nil || len(out.reading) != 3 {
		t.Errorf("after the end a body gets more time: %v, %v", out.reading, err)
	}
	if err := x.SetReadDeadline(time.Time{}); err != nil || len(out.reading) != 4 || !out.reading[3].IsZero() {
		t.Errorf("a body that has arrived has a deadline: %v, %v", out.reading, err)
	}
}
