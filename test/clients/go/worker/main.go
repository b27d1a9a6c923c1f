// Works on the jobs of a queue until it gets SIGTERM: worker QUEUE. The server is the one of PGHOST, PGDATABASE and so on.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
)

type mail struct {
	To string `json:"to"`
}

// The job itself: what it writes to this database is done when the job is, exactly once.
func handle(ctx context.Context, tx pgx.Tx, payload mail) (map[string]string, error) {
	if payload.To == "" {
		return nil, errors.New("no address")
	}
	_, err := tx.Exec(ctx, "INSERT INTO mail_sent (address) VALUES ($1)", payload.To)
	return map[string]string{"sent": payload.To}, err
}

func run(ctx context.Context, conn *pgx.Conn, job, token int64, payload mail) error {
	done := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		result, err := handle(ctx, tx, payload)
		if err == nil {
			_, err = tx.Exec(ctx, "SELECT jobq.complete($1, $2, $3)", job, token, result)
		}
		return err
	})
	if done == nil {
		return nil
	}
	// All is rolled back. When the lease was lost (SQLSTATE JQ001, in pgconn.PgError) somebody else has the job, and this says "lost".
	var status string
	err := conn.QueryRow(ctx, "SELECT status FROM jobq.fail_many($1, $2, $3)", []int64{job}, []int64{token}, done.Error()).Scan(&status)
	log.Printf("job %d: %s: %v", job, status, done)
	return err
}

func work(ctx context.Context, queue string, stopping context.Context) error {
	config, err := pgx.ParseConfig("")
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // no prepared statements, for poolers
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for stopping.Err() == nil {
		var job, token int64
		var payload mail
		err := conn.QueryRow(ctx, "SELECT job_id, token, payload FROM jobq.dequeue($1, worker => 'go')", queue).Scan(&job, &token, &payload)
		if errors.Is(err, pgx.ErrNoRows) {
			_, err = conn.Exec(ctx, "CALL jobq.wait($1, '2 s')", queue)
		} else if err == nil {
			err = run(ctx, conn, job, token, payload)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func main() {
	stopping, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	if err := work(context.Background(), os.Args[1], stopping); err != nil {
		log.Fatal(err)
	}
}
