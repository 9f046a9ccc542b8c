package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
)

// object is a JSON object whose values are kept as their bytes. Names are sorted
// when it is written, so that of canonical values a canonical object is made.
type object map[string]json.RawMessage

func (o object) names() []string { return slices.Sorted(maps.Keys(o)) }

func (o object) bytes() []byte {
	size := 0
	for _, value := range o {
		size += len(value) + 32
	}
	b := append(make([]byte, 0, size), '{')
	for i, name := range o.names() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, name), ':')
		b = append(b, o[name]...)
	}
	return append(b, '}')
}

// with is a copy with one member set; nil takes it out.
func (o object) with(name string, value []byte) object {
	changed := maps.Clone(o)
	if changed[name] = value; value == nil {
		delete(changed, name)
	}
	return changed
}

// event is an event taken apart, and its bytes.
type event struct {
	object
	raw []byte
}

func (e event) with(name string, value []byte) event { return newEvent(e.object.with(name, value)) }

func newEvent(o object) event { return event{o, o.bytes()} }

// document is an export taken apart, to be changed and written again.
type document struct {
	envelope object // the members but events and texts
	events   []event
	texts    object
}

func openDocument(t *testing.T, file []byte) document {
	t.Helper()
	d := document{}
	must(t, json.Unmarshal(file, &d.envelope))
	var events []object
	must(t, json.Unmarshal(d.envelope["events"], &events))
	for _, e := range events {
		d.events = append(d.events, newEvent(e))
	}
	must(t, json.Unmarshal(d.envelope["texts"], &d.texts))
	delete(d.envelope, "events")
	delete(d.envelope, "texts")
	if again := d.bytes(); !bytes.Equal(again, file) {
		t.Fatal("an export that was taken apart is written with other bytes")
	}
	return d
}

func (d document) bytes() []byte {
	list := make([]byte, 0, 256<<10)
	for i, e := range d.events {
		list = append(append(list, "[,"[min(i, 1)]), e.raw...)
	}
	return append(d.envelope.with("events", append(list, ']')).with("texts", d.texts.bytes()).bytes(), '\n')
}

// withEvent is a copy in which the event at index i is another.
func (d document) withEvent(i int, e event) document {
	d.events = slices.Clone(d.events)
	d.events[i] = e
	return d
}

// withEvents is a copy with these events.
func (d document) withEvents(events ...[]event) document {
	d.events = slices.Concat(events...)
	return d
}

// withMember is a copy in which a member of the envelope is another.
func (d document) withMember(name string, value []byte) document {
	d.envelope = d.envelope.with(name, value)
	return d
}

// withText is a copy in which one text is another; nil takes it out.
func (d document) withText(name string, value []byte) document {
	d.texts = d.texts.with(name, value)
	return d
}

// summed is a copy whose count, head and texts are those of its events: what is
// left to say that it was cut is the signature of the export.
func (d document) summed() document {
	last := d.events[len(d.events)-1].object
	d = d.withMember("count", fmt.Append(nil, len(d.events))).withMember("head", last["hash"])
	d.texts = maps.Clone(d.texts)
	maps.DeleteFunc(d.texts, func(name string, _ json.RawMessage) bool {
		return !slices.ContainsFunc(d.events, func(e event) bool { return bytes.Contains(e.raw, []byte(name)) })
	})
	return d
}

// span is where a value stands in the file, without the quotes of a string.
type span struct{ start, end int }

// values are the places of the members of each event, found from the beginning
// of the file on.
func (d document) values(t *testing.T, file []byte) []map[string]span {
	t.Helper()
	list := make([]map[string]span, len(d.events))
	at := 0
	for i, e := range d.events {
		begin := bytes.Index(file[at:], e.raw)
		if begin < 0 {
			t.Fatalf("event %d does not stand in the file", i+1)
		}
		begin += at
		at = begin + len(e.raw)
		list[i] = map[string]span{}
		place := begin + len("{")
		for _, name := range e.names() {
			place += len(`"":`) + len(name)
			s := span{place, place + len(e.object[name])}
			if file[s.start] == '"' {
				s = span{s.start + 1, s.end - 1}
			}
			list[i][name] = s
			place += len(e.object[name]) + len(",")
		}
	}
	return list
}
