package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5"

	"countersign/internal/pgtest"
)

// newDatabase makes an empty database on the private server.
func (b *bench) newDatabase(ctx context.Context) (string, error) {
	b.databases++
	name := "bench_" + strconv.Itoa(b.databases)
	return b.server.URL(name), b.admin(ctx, "CREATE DATABASE "+name)
}

func (b *bench) dropDatabase(ctx context.Context, url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	return b.admin(ctx, "DROP DATABASE "+config.Database+" WITH (FORCE)")
}

func (b *bench) admin(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, b.server.URL("postgres"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

// crash stops the server without a checkpoint and starts it again, so that what
// an audit finds has come from the server's log.
func (b *bench) crash() error {
	return errors.Join(b.server.StopImmediate(), b.server.Restart())
}

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

// pgbench runs the distribution's own benchmark, simple-update, on the same server.
func (b *bench) pgbench(url string, clients int) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		seconds := max(3, int(math.Ceil(b.window.Seconds()))) // connecting is inside, and not counted
		out, err := exec.CommandContext(ctx, b.server.Bin("pgbench"), "--no-vacuum", "--builtin=simple-update", "--protocol=prepared",
			"--client="+strconv.Itoa(clients), "--jobs=2", "--time="+strconv.Itoa(seconds), url).CombinedOutput()
		if err != nil {
			return 0, fmt.Errorf("pgbench: %w\n%s", err, out)
		}
		found := tps.FindSubmatch(out)
		if found == nil {
			return 0, fmt.Errorf("pgbench printed no rate:\n%s", out)
		}
		return strconv.ParseFloat(string(found[1]), 64)
	}
}

// onPostgres is row 4.
func onPostgres(ctx context.Context, b *bench) (_ []line, err error) {
	if b.server, err = pgtest.Start(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.server.Stop()) }()
	url, err := b.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	scale := "10"
	if b.quick {
		scale = "1"
	}
	if out, err := exec.CommandContext(ctx, b.server.Bin("pgbench"), "--initialize", "--quiet", "--scale="+scale, url).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pgbench: %w\n%s", err, out)
	}
	recorded, err := recordCycle(ctx, b.dir)
	if err != nil {
		return nil, err
	}
	peer8 := &contestant{name: "pgbench at 8", other: b.pgbench(url, 8)}
	ours8 := &contestant{name: "commits at 8", order: order{Postgres: true, Commits: true, Callers: 8}}
	peer64 := &contestant{name: "pgbench at 64", other: b.pgbench(url, 64)}
	ours64 := &contestant{name: "commits at 64", order: order{Postgres: true, Commits: true, Callers: 64}}
	cycles := &contestant{name: "PostgreSQL", order: order{Postgres: true, Callers: 64}}
	embedded := &contestant{name: "SQLite", order: order{Callers: 64}}
	problems, err := b.turns(ctx, recorded.events(), ours8, peer8, ours64, peer64, cycles, embedded)
	if err != nil {
		return nil, err
	}
	perSecond := func(list ...*contestant) string {
		return fmt.Sprintf("%s %.0f/s, %s %.0f/s", list[0].name, median(list[0].rates), list[1].name, median(list[1].rates))
	}
	const server = "; a commit is a guarded update of 1 KB and one signed event; pgbench is simple-update, prepared"
	return []line{
		{row: 4, name: "PostgreSQL: commits at 8 / pgbench at 8", pairs: ratios(ours8.rates, peer8.rates), aim: atLeast(0.8), problems: problems, note: perSecond(ours8, peer8) + server},
		{row: 4, name: "commits at 64 / pgbench at 64", pairs: ratios(ours64.rates, peer64.rates), aim: atLeast(2.0), problems: problems, note: perSecond(ours64, peer64) + server},
		{row: 4, name: "cycles: PostgreSQL / SQLite", pairs: ratios(cycles.rates, embedded.rates), aim: atLeast(0.6), problems: problems, note: perSecond(cycles, embedded)},
	}, nil
}
