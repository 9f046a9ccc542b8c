package main

import (
	"strings"
	"testing"
)

// What operate.md shows for a freeze works as it is pasted: an agent is stopped, the
// workspace says how it stands, every run that was stopped goes on by the loop that is
// shown, the evidence verifies, and what is started frozen is.
func TestShownFreeze(t *testing.T) {
	blocks := shownBlocks(t, "Freeze everything")
	if len(blocks) != 6 {
		t.Fatalf("%d blocks", len(blocks))
	}
	freeze, unfreeze, show, goOn, export, serve := blocks[0], blocks[1], blocks[2], blocks[3], blocks[4], blocks[5]
	create := shownBlocks(t, "Create a run and hand it to an agent")[0]
	out, err := pastedShell(t)(strings.Join([]string{
		shownBlocks(t, "Start an installation")[0], `SERVE=$!`, create,
		`for n in 1 2; do RUN=$(./countersign run create --dir control --body run.json); ./countersign run token $RUN --dir control > token$n; done`,
		freeze, `echo freeze ends with $?`,
		`for n in 1 2; do ./countersign agent --token-file token$n > /dev/null 2>&1; echo agent $n ends with $?; done`,
		`stopped() { ./countersign run list --dir control --reason FROZEN --json | wc -l; }`,
		`echo stopped by it: $(stopped)`,
		show,
		goOn, `echo stopped while it stands: $(stopped)`,
		unfreeze,
		goOn, `echo stopped afterwards: $(stopped)`,
		`for n in 1 2; do ./countersign agent --token-file token$n > /dev/null; echo agent $n ends with $?; done`,
		export, `echo verify ends with $?`,
		`kill $SERVE; wait $SERVE`,
		serve, show,
	}, "\n"))
	if err != nil {
		t.Errorf("the session ends with %v", err)
	}
	rest := out
	for _, want := range []string{
		"is now frozen: freeze 1 since ", ": An agent orders what nobody asked for\nin flight: none; unconfirmed: none\n", "freeze ends with 0",
		"agent 1 ends with 1\nagent 2 ends with 1\nstopped by it: 2\n",
		"The workspace is frozen: freeze 1 since ",
		"409 FROZEN: ", "409 FROZEN: ", "stopped while it stands: 2\n",
		"Freeze 1 of the workspace is lifted.",
		"ready, outcome active\nready, outcome active\nstopped afterwards: 0\nagent 1 ends with 0\nagent 2 ends with 0\n",
		"VERIFIED  every check holds", "verify ends with 0",
		"frozen    by freeze 2 since ", "The workspace is frozen: freeze 2 since ", ": The machine was taken down\n",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("want %q after what came before it, in\n%s", want, out)
		}
		rest = after
	}
}
