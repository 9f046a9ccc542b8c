package invariant_test

import (
	"maps"
	"strings"
	"testing"

	"countersign/internal/app"
	"countersign/internal/supervision/decide"
)

// A standpoint is where a run can be, and how it comes there: what each word stands for is
// in doings.
var standpoints = map[string]string{
	"ready":          "",
	"permitted":      "observe,report read",
	"read":           "observe,report read,operate",
	"awaiting":       "observe,report read,operate,observe,report prepare,operate",
	"approved":       "observe,report read,operate,observe,report prepare,operate,approve",
	"committing":     "observe,report read,operate,observe,report prepare,operate,approve,observe,report commit",
	"stale":          "observe,report read,operate,observe,report prepare,operate,simulate price_change",
	"clarification":  "observe,report foreign",
	"retry":          "simulate provider_timeout",
	"authority":      "simulate expire_grant",
	"reconciliation": "observe,report read,operate,observe,simulate drop_receipt,report prepare,operate",
	"stated":         "observe,report read,operate,observe,simulate drop_receipt,report prepare,operate,applied",
	"completed":      "observe,report read,operate,observe,report prepare,operate,approve,observe,report commit,operate",
	"revoked":        "observe,revoke",
}

// A doing is one request, and what the model makes of it.
type doing struct {
	name  string
	model func(*model) string
	drive func(*driver)
}

// doings are what can be asked of a run, each arrow of the diagram among them.
func doings() (list []doing) {
	add := func(name string, model func(*model) string, drive func(*driver)) {
		list = append(list, doing{name, model, drive})
	}
	for _, op := range []string{"read", "prepare", "commit", "foreign"} {
		add("report "+op, func(m *model) string { return m.report(op, "") }, func(d *driver) { d.report(op, "") })
	}
	for _, event := range []string{"expire_grant", "expire_approval", "expire_permit", "revise_state", "navigate", "price_change", "drop_receipt", "provider_timeout"} {
		add("simulate "+event, func(m *model) string { return m.simulate(event) }, func(d *driver) { d.simulate(event) })
	}
	for name, model := range map[string]func(*model) string{
		"approve": func(m *model) string { return m.approve(m.proposal != 0) }, "approve another": func(m *model) string { return m.approve(false) },
		"clarify": (*model).clarify, "retry": (*model).retry, "revoke": (*model).revoke, "probe": (*model).probe, "step": (*model).step, "play": (*model).play,
		"applied": func(m *model) string { return m.reconcile("applied") }, "not_applied": func(m *model) string { return m.reconcile("not_applied") },
		"unknown": func(m *model) string { return m.reconcile("unknown") },
	} {
		add(name, model, func(d *driver) { d.act(name) })
	}
	newest := func(m *model) int { return max(len(m.fates)-2, forged) }
	for name, number := range map[string]func(*model) int{"operate": newest, "operate without": func(*model) int { return none }, "operate forged": func(*model) int { return forged }} {
		add(name, func(m *model) string { return m.operate(use(m, number), true) }, func(d *driver) { d.operate(use(d.model, number), true) })
	}
	add("operate otherwise", func(m *model) string { return m.operate(use(m, newest), false) }, func(d *driver) { d.operate(use(d.model, newest), false) })
	add("observe", (*model).observe, (*driver).observe)
	add("token", (*model).issueToken, (*driver).token)
	return list
}

// use is the number of a permit, or none where there was no permit yet.
func use(m *model, number func(*model) int) int {
	if n := number(m); n != 0 {
		return n
	}
	return none
}

// at brings a driver's new run to a standpoint.
func at(h *house, does map[string]doing, way string) *driver {
	d := &driver{house: h, choose: func(_ string, n int) int { return n - 1 }}
	d.run("bank", "exact", 5000)
	for word := range strings.SplitSeq(way, ",") {
		if word != "" {
			does[word].drive(d)
		}
	}
	return d
}

// arrows asks for everything from one standpoint and counts what is done and refused.
func arrows(h *house, way string) (drawn, refused int, err error) {
	does := map[string]doing{}
	for _, d := range doings() {
		does[d.name] = d
	}
	err = caught(func() {
		stands := at(h, does, way)
		for _, what := range does {
			m := *stands.model
			m.fates, m.events = maps.Clone(m.fates), nil
			switch answer := what.model(&m); {
			case !strings.HasPrefix(answer, "2") && !strings.HasPrefix(answer, "502"):
				refused++
				what.drive(stands)
			case h.config.Database == "":
				drawn++
				what.drive(at(h, does, way))
			}
		}
		stands.finish()
	})
	return drawn, refused, err
}

// H-188 to H-191: every arrow of the diagram of section 6, drawn or not. From each
// standpoint everything is asked. What the model refuses is refused on one run, and leaves
// it and its chain as they were, but for the note of a refused operation; what it does not
// is done on a run of its own, on SQLite.
func TestArrows(t *testing.T) {
	engines(t, func(t *testing.T, database func() string) {
		h, all := openHouse(t, database()), 0
		for name, way := range standpoints {
			drawn, refused, err := arrows(h, way)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			t.Logf("%s: %d arrows drawn, %d refused", name, drawn, refused)
			all += refused
		}
		if all < 200 {
			t.Errorf("only %d arrows are refused", all)
		}
	})
}

// The control: a run that takes reports whatever it has stopped for is found out.
func TestArrowsControl(t *testing.T) {
	h := openHouse(t, "", func(c *app.Config) { c.Doors = decide.Doors{Ready: true, Machine: true} })
	if _, _, err := arrows(h, standpoints["clarification"]); err == nil {
		t.Error("reports of a stopped run go unnoticed")
	}
}
