// The steps of ../steps.txt with pgx. Usage: steps STEPS; JOBQ_POOLED=1 behind a pooler.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var ctx = context.Background()
var pooled = os.Getenv("JOBQ_POOLED") == "1"

// A step stops at its first error.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

func connect() *pgx.Conn {
	config, err := pgx.ParseConfig("")
	check(err)
	if pooled {
		config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	check(err)
	return conn
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func query(q querier, sql string, args ...any) ([][]any, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all [][]any
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return nil, err
		}
		all = append(all, values)
	}
	return all, rows.Err()
}

func value(q querier, sql string, args ...any) any {
	rows, err := query(q, sql, args...)
	check(err)
	return rows[0][0]
}

func shown(v any) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(v)
}

func row(values ...any) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = shown(v)
	}
	return []string{strings.Join(texts, "|")}
}

// Calls

type step struct {
	written, direct bool
	name, sql       string
	args            [][2]string
	keep, see       []string
	state           string
}

func integer(text string, bits int) int64 {
	n, err := strconv.ParseInt(text, 10, bits)
	check(err)
	return n
}

func bind(kind, text string) any {
	var parts []string
	if text != "" {
		parts = strings.Split(text, ",")
	}
	switch kind {
	case "text", "interval":
		return text
	case "int":
		return int32(integer(text, 32))
	case "bigint":
		return integer(text, 64)
	case "bool":
		return text == "true"
	case "json":
		var v any
		check(json.Unmarshal([]byte(text), &v))
		return v
	case "time":
		t, err := time.Parse(time.RFC3339Nano, text)
		check(err)
		return t
	case "texts":
		list := []*string{}
		for i := range parts {
			if parts[i] == "-" {
				list = append(list, nil)
			} else {
				list = append(list, &parts[i])
			}
		}
		return list
	case "bigints":
		list := []int64{}
		for _, part := range parts {
			list = append(list, integer(part, 64))
		}
		return list
	case "null":
		return nil
	}
	panic("steps: arg " + kind)
}

var names = regexp.MustCompile(`\{\w+\}`)

func filled(text string, kept map[string]string) string {
	return names.ReplaceAllStringFunc(text, func(name string) string { return kept[name[1:len(name)-1]] })
}

func call(conn *pgx.Conn, s step, kept map[string]string) []string {
	args := []any{}
	for _, arg := range s.args {
		if arg[0] != "json" {
			arg[1] = filled(arg[1], kept)
		}
		args = append(args, bind(arg[0], arg[1]))
	}
	rows, err := query(conn, s.sql, args...)
	var failure *pgconn.PgError
	if errors.As(err, &failure) && failure.Code == s.state {
		return []string{"error " + failure.Code}
	}
	check(err)
	var seen []string
	for i, r := range rows {
		if i == 0 {
			for j, name := range s.keep {
				kept[name] = shown(r[j])
			}
		}
		seen = append(seen, row(r...)...)
	}
	return seen
}

// Steps written out

// Until somebody waits for a job; ten seconds at most.
func waiting(conn *pgx.Conn) {
	limit := time.Now().Add(10 * time.Second)
	for value(conn, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Extension' AND query LIKE '%dequeue%' AND state = 'active')") != true {
		if time.Now().After(limit) {
			panic("nobody waits")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func ownTypes(a, b *pgx.Conn) []string {
	job := value(a, "SELECT jobq.enqueue($1, delay => $2, priority => $3)", "own", time.Hour, 1000)
	seconds := value(b, "SELECT round(extract(epoch FROM run_at - created))::int FROM jobq.job($1)", job)
	value(b, "SELECT jobq.cancel($1)", job)
	return row(seconds)
}

func dequeueWaits(a, b *pgx.Conn) []string {
	var job, token int64
	var name *string
	var payload struct{ From string }
	var headers map[string]any
	var at time.Time
	done := make(chan error)
	go func() {
		done <- a.QueryRow(ctx, "SELECT job_id, token, name, payload, headers, enqueued_at FROM jobq.dequeue($1, wait => '30 s')", "own").
			Scan(&job, &token, &name, &payload, &headers, &at)
	}()
	waiting(b)
	value(b, "SELECT jobq.enqueue($1, $2, headers => $3)", "own", map[string]string{"from": "B"}, map[string]int{"h": 1})
	check(<-done)
	near := time.Since(at).Abs() < time.Minute
	return row(payload.From, headers["h"], name == nil, near, value(a, "SELECT jobq.complete($1, $2)", job, token))
}

func cancelQuery(a, b *pgx.Conn) []string {
	done := make(chan error)
	go func() {
		_, err := query(a, "SELECT job_id FROM jobq.dequeue($1, wait => '60 s')", "own")
		done <- err
	}()
	waiting(b)
	check(a.PgConn().CancelRequest(ctx))
	var failure *pgconn.PgError
	if err := <-done; !errors.As(err, &failure) {
		panic(err)
	}
	value(a, "SELECT jobq.enqueue($1)", "own")
	return row(failure.Code, value(a, "SELECT jobq.complete(job_id, token) FROM jobq.dequeue($1)", "own"))
}

var errUndo = errors.New("undo")

func together(a, b *pgx.Conn) []string {
	value(a, "SELECT jobq.enqueue($1)", "own")
	jobs, err := query(a, "SELECT job_id, token FROM jobq.dequeue($1)", "own")
	check(err)
	var seen []any
	for _, end := range []error{errUndo, nil} {
		err := pgx.BeginFunc(ctx, a, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO effect VALUES ($1)", "together")
			check(err)
			value(tx, "SELECT jobq.complete($1, $2)", jobs[0]...)
			return end
		})
		if err != end {
			panic(err)
		}
		rows, err := query(b, "SELECT (SELECT count(*) FROM effect WHERE step = $1), state FROM jobq.job($2)", "together", jobs[0][0])
		check(err)
		seen = append(seen, fmt.Sprint(rows[0][0], " ", rows[0][1]))
	}
	return row(seen...)
}

func rolledBack(a, b *pgx.Conn) []string {
	const count = "SELECT count(*) FROM jobq.jobs WHERE queue = $1 AND state = 'ready'"
	before := value(b, count, "own")
	err := pgx.BeginFunc(ctx, a, func(tx pgx.Tx) error {
		value(tx, "SELECT jobq.enqueue($1)", "own")
		return errUndo
	})
	if err != errUndo {
		panic(err)
	}
	return row(before, value(b, count, "own"))
}

func errorParts(a, b *pgx.Conn) []string {
	_, err := query(a, "SELECT jobq.enqueue($1)", "nowhere")
	var failure *pgconn.PgError
	if !errors.As(err, &failure) {
		panic(err)
	}
	return row(failure.Code, failure.Message, failure.Hint)
}

func manySessions(a, b *pgx.Conn) []string {
	enqueue := func(q querier, n int) {
		for i := 0; i < n; i++ {
			value(q, "SELECT jobq.enqueue($1, $2, priority => $3)", "own", map[string]int{"i": i}, i)
		}
	}
	check(pgx.BeginFunc(ctx, b, func(tx pgx.Tx) error {
		enqueue(tx, 1)
		enqueue(a, 12)
		enqueue(tx, 11)
		return nil
	}))
	for i := 0; i < 11; i++ {
		enqueue(a, 1)
		enqueue(b, 1)
	}
	return row(value(a, "SELECT count(*) FROM jobq.jobs WHERE queue = $1 AND state = 'ready'", "own"), value(b, "SELECT jobq.purge_queue($1)", "own"))
}

func heard(a, b *pgx.Conn, channel, queue string) *pgconn.Notification {
	_, err := a.Exec(ctx, "LISTEN "+channel)
	check(err)
	value(b, "SELECT jobq.enqueue($1)", queue)
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	n, err := a.WaitForNotification(limited)
	check(err)
	return n
}

func listen(a, b *pgx.Conn) []string {
	return row(heard(a, b, "jobq_heard", "heard").Channel)
}

func listenEvents(a, b *pgx.Conn) []string {
	n := heard(b, a, "jobqevents_loud", "loud")
	var told struct{ Events []struct{ Event string } }
	check(json.Unmarshal([]byte(n.Payload), &told))
	waits := false
	for _, e := range told.Events {
		waits = waits || e.Event == "waiting"
	}
	return row(n.Channel, waits)
}

var written = map[string]func(a, b *pgx.Conn) []string{
	"own types":                     ownTypes,
	"dequeue waits":                 dequeueWaits,
	"cancel of a running query":     cancelQuery,
	"write and completion together": together,
	"enqueue rolled back":           rolledBack,
	"what an error holds":           errorParts,
	"same statement, many sessions": manySessions,
	"listen":                        listen,
	"listen to events":              listenEvents,
}

func readSteps(path string) []step {
	text, err := os.ReadFile(path)
	check(err)
	var list []step
	for _, line := range strings.Split(string(text), "\n") {
		word, rest, _ := strings.Cut(strings.TrimLeft(line, "\t"), " ")
		if word == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !strings.HasPrefix(line, "\t") {
			name := strings.TrimPrefix(rest, "direct ")
			list = append(list, step{written: word == "do", direct: name != rest, name: name})
			continue
		}
		s := &list[len(list)-1]
		switch word {
		case "sql":
			s.sql = rest
		case "arg":
			kind, text, _ := strings.Cut(rest, " ")
			s.args = append(s.args, [2]string{kind, text})
		case "keep":
			s.keep = strings.Split(rest, " ")
		case "see":
			s.see = append(s.see, rest)
		case "error":
			s.state = rest
		case "none":
		default:
			panic("steps: " + line)
		}
	}
	return list
}

// What a step sees and what it should have seen.
func take(s step, conns []*pgx.Conn, calls int, kept map[string]string) (seen, wanted []string) {
	defer func() {
		if p := recover(); p != nil {
			seen, wanted = []string{fmt.Sprint(p)}, s.see
			if s.state != "" {
				wanted = []string{"error " + s.state}
			}
		}
	}()
	if s.written {
		seen = written[s.name](conns[0], conns[1])
	} else {
		seen = call(conns[calls%2], s, kept)
	}
	for _, w := range s.see {
		wanted = append(wanted, filled(w, kept))
	}
	if s.state != "" {
		wanted = []string{"error " + s.state}
	}
	return
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == "github.com/jackc/pgx/v5" {
			return dep.Version
		}
	}
	return ""
}

func main() {
	conns := []*pgx.Conn{connect(), connect()}
	list := readSteps(os.Args[1])
	kept := map[string]string{}
	calls, bad := 0, 0
	fmt.Println("# pgx", version())
	for i, s := range list {
		if s.direct && pooled {
			fmt.Printf("ok %d - %s # SKIP needs a session of its own\n", i+1, s.name)
			continue
		}
		if !s.written {
			calls++
		}
		seen, wanted := take(s, conns, calls, kept)
		if reflect.DeepEqual(seen, wanted) {
			fmt.Printf("ok %d - %s\n", i+1, s.name)
		} else {
			bad++
			fmt.Printf("not ok %d - %s\n# wanted: %q\n# seen: %q\n", i+1, s.name, wanted, seen)
		}
	}
	fmt.Printf("1..%d\n", len(list))
	for _, conn := range conns {
		check(conn.Close(ctx))
	}
	if bad > 0 {
		os.Exit(1)
	}
}
