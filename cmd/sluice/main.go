package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"sluice/internal/clock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, &environment{
		args: os.Args[1:], environ: os.Environ(),
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		clock: clock.NewReal(),
	})
	stop()
	os.Exit(code)
}
