package merchant

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"countersign/evidence"
)

// full is a state that shows every member a shop may fill.
func full() *State {
	s, at := fixture(), evidence.Time(1_800_000_000_000)
	s.Cart = Cart{3, []Line{{s.Products[0].ID, 1}}}
	s.Checkout = &Checkout{"chk_1", 3, "addr_home", 13700, &at}
	s.Order = &Order{"ord_1", "chk_1", "addr_home", 13700, []Line{{s.Products[0].ID, 1}}}
	return s
}

// strs finds every string of a value, by the path of its JSON members.
func strs(path string, v reflect.Value, found map[string]reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			strs(path, v.Elem(), found)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Tag.Get("json"); name != "" {
				strs(strings.TrimPrefix(path+"."+name, "."), v.Field(i), found)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			strs(fmt.Sprintf("%s[%d]", path, i), v.Index(i), found)
		}
	case reflect.String:
		found[path] = v
	}
}

// Whatever a shop shows is bounded: every text of the trusted state, those added
// later too, at 200 characters. The error names the member and does not quote it.
func TestEveryTextIsBounded(t *testing.T) {
	names := map[string]reflect.Value{}
	strs("", reflect.ValueOf(full()), names)
	if len(names) < 3+2+5 {
		t.Fatalf("only %d texts", len(names))
	}
	for name := range names {
		for _, c := range []struct {
			characters int
			fine       bool
		}{{200, true}, {201, false}, {20 << 10, false}} {
			s, found := full(), map[string]reflect.Value{}
			strs("", reflect.ValueOf(s), found)
			value := strings.Repeat("\u00e9", c.characters)
			found[name].SetString(value)
			if c.fine && (name == "cart.lines[0].productId" || strings.HasPrefix(name, "products") && strings.HasSuffix(name, "productId")) {
				continue // these have closer bounds
			}
			_, err := adapter.SeeHosted(answers(s), nil)
			if (err == nil) != c.fine {
				t.Errorf("%s of %d characters: %v", name, c.characters, err)
			}
			if err != nil && (!strings.Contains(err.Error(), name+" ") || strings.Contains(err.Error(), "\u00e9")) {
				t.Errorf("%s of %d characters: the error is %v", name, c.characters, err)
			}
		}
	}
}

func TestEveryListIsBounded(t *testing.T) {
	for name, fill := range map[string]func(*State, int){
		"products": func(s *State, n int) {
			s.Products = nil
			for i := range n {
				s.Products = append(s.Products, Product{fmt.Sprintf("p%d", i), "P", "M", 1})
			}
			s.Cart.Lines = nil
		},
		"cart.lines":  func(s *State, n int) { s.Cart.Lines = make([]Line, n) },
		"order.lines": func(s *State, n int) { s.Order.Lines = make([]Line, n) },
	} {
		for n, fine := range map[int]bool{64: true, 65: false} {
			s := full()
			fill(s, n)
			if err := s.checkBounds(); (err == nil) != fine || err != nil && !strings.Contains(err.Error(), name+" ") {
				t.Errorf("%s of %d entries: %v", name, n, err)
			}
			if _, err := adapter.SeeHosted(answers(s), nil); !fine && err == nil {
				t.Errorf("%s of %d entries was believed", name, n)
			}
		}
	}
}

// An answer as a whole is at most 64 KiB, in whichever member that is passed over
// it is long, and so is the answer to a read that becomes the view.
func TestEveryAnswerIsBounded(t *testing.T) {
	pad := func(body []byte, size int) []byte {
		with := strings.TrimSuffix(string(body), "}") + `,"note":"`
		return []byte(with + strings.Repeat("x", size-len(with)-2) + `"}`)
	}
	const most = 64 << 10
	for i, name := range []string{"catalog", "cart", "order"} {
		for size, fine := range map[int]bool{most: true, most + 1: false} {
			bodies := answers(full())
			bodies[i] = pad(bodies[i], size)
			if _, err := adapter.SeeHosted(bodies, nil); len(bodies[i]) != size || (err == nil) != fine || err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("a %s of %d bytes: %v", name, len(bodies[i]), err)
			}
		}
	}
	for size, fine := range map[int]bool{most: true, most + 1: false} {
		view := strings.Repeat(" ", size)
		if _, err := adapter.SeeHosted(answers(full()), &view); (err == nil) != fine {
			t.Errorf("a view of %d bytes: %v", size, err)
		}
	}
}

// What an owner puts into terms is bounded too.
func TestTermsAreBounded(t *testing.T) {
	for _, member := range []string{"productId", "addressRef"} {
		for n, fine := range map[int]bool{64: true, 65: false} {
			values := map[string]string{"productId": "p", "addressRef": "a"}
			values[member] = strings.Repeat("x", n)
			raw := fmt.Sprintf(`{"origin":"local","productId":%q,"quantity":1,"addressRef":%q,"maxTotalCents":"1"}`, values["productId"], values["addressRef"])
			if _, denial := adapter.Terms([]byte(raw), "local"); (denial == nil) != fine {
				t.Errorf("%s of %d bytes: %v", member, n, denial)
			}
		}
	}
}
