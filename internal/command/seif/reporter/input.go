package reporter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// intention is what is taken of what Claude Code tells a hook. There is no place in it for
// what the tool is called with.
type intention struct{ event, tool, toolUseID string }

// maxInput bounds what is read of a hook's input in bytes.
const maxInput = 32 << 20

// readIntention reads one JSON object and keeps three of its strings. Whatever else is in it goes by
// token by token.
func readIntention(in io.Reader) (intention, error) {
	var i intention
	wanted := map[string]*string{"hook_event_name": &i.event, "tool_name": &i.tool, "tool_use_id": &i.toolUseID}
	d := json.NewDecoder(io.LimitReader(in, maxInput))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return i, errors.Join(errors.New("the input is no JSON object"), err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return i, errNotJSON
		}
		at, want := wanted[name.(string)] // a name is a string, or Token fails
		value, err := skim(d)
		if err != nil {
			return i, errNotJSON
		}
		if !want {
			continue
		}
		text, ok := value.(string)
		if !ok || *at != "" {
			return i, fmt.Errorf("the input's member %s is no string, or is there twice", name)
		}
		*at = text
	}
	if _, err := d.Token(); err != nil {
		return i, errNotJSON
	}
	return i, nil
}

// errNotJSON hides the decoder's own words, which may quote the input.
var errNotJSON = errors.New("the input is not JSON, or larger than 32 MiB")

// skim reads one value and returns it if it is no object and no array.
func skim(d *json.Decoder) (json.Token, error) {
	value, err := d.Token()
	if err != nil {
		return nil, err
	}
	if _, nested := value.(json.Delim); !nested {
		return value, nil
	}
	for depth := 1; depth > 0; {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
	return nil, nil
}
