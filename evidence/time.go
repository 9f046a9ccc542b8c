package evidence

import "time"

// Time is an instant in milliseconds since 1970 UTC. In JSON it is a string in
// [TimeLayout]. Times compare as integers.
type Time int64

// TimeOf cuts t to milliseconds.
func TimeOf(t time.Time) Time { return Time(t.UnixMilli()) }

// Time returns t in UTC.
func (t Time) Time() time.Time { return time.UnixMilli(int64(t)).UTC() }

// Add returns t+d, cut to milliseconds.
func (t Time) Add(d time.Duration) Time { return t + Time(d.Milliseconds()) }

// Sub returns t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t-u) * time.Millisecond }

func (t Time) String() string { return FormatTime(t.Time()) }

// MarshalText writes [TimeLayout].
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads [TimeLayout] and accepts no other spelling.
func (t *Time) UnmarshalText(b []byte) error {
	parsed, err := ParseTime(string(b))
	if err != nil {
		return err
	}
	*t = TimeOf(parsed)
	return nil
}
