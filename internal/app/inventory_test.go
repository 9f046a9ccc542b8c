package app_test

import (
	"net"
	"testing"
)

// H-199 H-200 H-202: services and policies that the owner registers are listed, and the address of a
// service is only written down: nothing connects to it when its policy is verified and published and a
// bound run acts.
func TestInventoryIsNoDestination(t *testing.T) {
	d := openDesk(t, "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	connected := make(chan net.Addr, 100)
	go func() {
		defer close(connected)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connected <- c.RemoteAddr()
			c.Close()
		}
	}()
	origin := "http://" + l.Addr().String()
	service := map[string]any{"name": "Shop", "kind": "merchant", "environment": "local", "origin": origin}
	id := d.ask("POST", "/workspace/services", service).is(t, "register", 201, "").at("serviceId")
	guardian := d.publish(with("serviceId", id))
	run := d.ask("POST", "/runs", boundRun(guardian)).is(t, "a bound run", 201, "").at("runId").(string)
	a := d.agent(run)
	for _, operation := range []string{"merchant.catalog", "merchant.product"} {
		if done := a.act(operation).is(t, operation, 200, ""); done.at("state") != "verified" {
			t.Errorf("%s: %s", operation, done.body)
		}
	}
	w := d.ask("GET", "/workspace", nil).is(t, "the workspace", 200, "")
	if w.at("services", 0, "serviceId") != id || w.at("services", 0, "origin") != origin || w.at("guardians", 0, "guardianId") != guardian {
		t.Errorf("the workspace: %s", w.body)
	}
	// Control: a connection is seen. It is the first and the only one.
	c, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	defer c.Close()
	if from := <-connected; from.String() != c.LocalAddr().String() {
		t.Errorf("a connection from %s, before that of the control from %s", from, c.LocalAddr())
	}
	must(t, l.Close())
	for from := range connected {
		t.Errorf("another connection from %s", from)
	}
}
