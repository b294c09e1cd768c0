package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"sluice/internal/config"
	"sluice/internal/log"
	"sluice/internal/metrics"
	"sluice/plugins"
	"sluice/plugins/kit"
	"sluice/runtime/rank"
	"sluice/runtime/router"
	"sluice/runtime/server"
)

// stopLimit is how long the ranks and the last answers have to end once the grace is over.
const stopLimit = 10 * time.Second

func newServeCommand(env *environment) *cobra.Command {
	var record string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve prompts over HTTP: a router, one prefill and one decode instance in this process",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, src, err := loadConfigFrom(c, env)
			if err != nil {
				return err
			}
			hangup := make(chan os.Signal, 1)
			signal.Notify(hangup, syscall.SIGHUP)
			defer signal.Stop(hangup)
			file, err := c.Flags().GetString("config")
			if err != nil {
				return fmt.Errorf("read --config: %w", err)
			}
			return serve(c.Context(), env, cfg, serveHooks{hangup: hangup, configFile: file, record: record,
				where:  func(key string) string { return config.Where(src, key) },
				reload: func() (*config.Config, error) { return loadConfig(c, env) }})
		},
	}
	addConfigFlags(cmd)
	cmd.Flags().StringVar(&record, "record", "", "write what the policies of every rank are shown and answer to `FILE`, a new one, for policy replay")
	return cmd
}

// serveHooks are what serve needs of the process around it, and what tests change.
type serveHooks struct {
	hangup     <-chan os.Signal               // the configuration is to be read again; nil: never
	reload     func() (*config.Config, error) // reads it
	configFile string                         // of --config; "": none
	where      func(key string) string        // the source of a key's value; nil: nobody knows
	record     string                         // of --record; "": nothing is recorded
	poll       time.Duration                  // between two looks at the modules' files; 0: pollModules

	local   func(*router.LocalOptions)               // changes what the instances are built with
	started func(addr string, reg *metrics.Registry) // the server is ready
}

// serve runs the server until ctx ends, then stops taking work, lets what runs finish within http.shutdown_grace,
// fails the rest, and returns nil.
func serve(ctx context.Context, env *environment, cfg *config.Config, hooks serveHooks) (err error) {
	logger, err := log.New(env.stderr, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return usage(err)
	}
	// The port comes first: a start that cannot have it says so at once.
	ln, err := server.Listen(net.JoinHostPort(cfg.HTTP.Host, strconv.Itoa(cfg.HTTP.Port)))
	if err != nil {
		return err
	}
	served := false
	defer func() {
		if !served {
			err = errors.Join(err, ln.Close())
		}
	}()
	host := plugins.NewHost(plugins.Options{Log: logger, CacheDir: cacheDir(cfg, env, logger)})
	defer func() { err = errors.Join(err, host.Close(context.WithoutCancel(ctx))) }()
	if err := router.Check(ctx, cfg, host, hooks.where); err != nil {
		return usage(fmt.Errorf("start: %w", err))
	}
	reg := metrics.New()
	opts := router.LocalOptions{Config: cfg, Clock: env.clock, Logger: logger, Registry: reg, Plugins: host}
	if hooks.record != "" {
		var recording *kit.Recording
		if recording, err = startRecord(hooks.record, cfg.Decode.Ranks, reg, logger); err != nil {
			return usage(fmt.Errorf("start: --record %s: %w", hooks.record, err))
		}
		defer func() { err = errors.Join(err, recording.Close()) }() // after the ranks have ended
		opts.Recorder = func(r int) rank.Recorder { return recording.Rank(r) }
	}
	if hooks.local != nil {
		hooks.local(&opts)
	}
	local, err := router.NewLocal(ctx, opts)
	if err != nil {
		return usage(fmt.Errorf("start: %w", err))
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		err = errors.Join(err, local.Close(last))
	}()
	srv, err := server.New(server.Options{
		Engine: local, Clock: env.clock, Logger: logger, Registerer: registerer{reg}, Gatherer: reg,
		VocabSize: cfg.Model.VocabSize, Version: buildVersion(), MaxBodyBytes: cfg.HTTP.MaxBody,
		MaxNewTokens: cfg.Decode.MaxNewTokens, ReadTimeout: cfg.HTTP.ReadTimeout, WriteStall: cfg.HTTP.WriteStall,
		Policies: local.PolicyEngine(), PolicyDirs: policyDirs(cfg, hooks.configFile, logger),
	})
	if err != nil {
		return err
	}
	if err := local.WaitReady(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // told to stop before it had begun
		}
		return err
	}
	served = true // Serve closes the listener
	follow := newFollower(local, cfg, env.clock, logger, hooks)
	defer follow.end()
	follow.start(ctx)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	err = say(env, readyLine(ln.Addr(), cfg, local.Policies()))
	if hooks.started != nil {
		hooks.started(ln.Addr().String(), reg)
	}
	if err == nil {
		select {
		case <-ctx.Done():
			logger.Info("stopping: no more work is taken", "grace", cfg.HTTP.ShutdownGrace)
		case err = <-ended: // the listener failed
			ended <- nil
		}
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.HTTP.ShutdownGrace)
	defer cancel()
	if cut := srv.Shutdown(grace); cut != nil {
		logger.Warn("some clients were cut", "error", cut)
	}
	return errors.Join(err, <-ended)
}

// readyLine is what a start prints.
func readyLine(addr net.Addr, cfg *config.Config, policies []plugins.Info) string {
	parts := make([]string, len(policies))
	for i, p := range policies {
		parts[i] = fmt.Sprintf("%s=%s (%s)", p.Hook, p.Name, p.Engine)
	}
	return fmt.Sprintf("sluice: serving on http://%s (1 prefill, 1 decode of %d ranks, policies %s)\n", addr, cfg.Decode.Ranks, strings.Join(parts, ", "))
}

// cacheDir is the folder for compiled policies: the configured one, or one in the user's cache folder; empty where
// neither can be named.
func cacheDir(cfg *config.Config, env *environment, logger *slog.Logger) string {
	if cfg.Plugins.CacheDir != "" {
		return cfg.Plugins.CacheDir
	}
	dir, err := userCacheDir(env.environ)
	if err != nil {
		logger.Warn("compiled policies are not cached; set [plugins] cache_dir", "error", err)
		return ""
	}
	return filepath.Join(dir, "sluice")
}

// userCacheDir is os.UserCacheDir for the environment the command was given, on systems that keep it where the XDG
// directories are; elsewhere it is the process's.
func userCacheDir(environ []string) (string, error) {
	value := func(name string) string {
		found := ""
		for _, e := range environ {
			if rest, ok := strings.CutPrefix(e, name+"="); ok {
				found = rest
			}
		}
		return found
	}
	if dir := value("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	if home := value("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache"), nil
	}
	return os.UserCacheDir()
}

// buildVersion is the program's version without the details of `sluice version`.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// registerer lets the HTTP server register its metrics in the process's registry.
type registerer struct{ reg *metrics.Registry }

var _ prometheus.Registerer = registerer{}

// Register adds a collector.
func (r registerer) Register(c prometheus.Collector) error {
	r.reg.Register("http", c)
	return r.reg.Err()
}

// MustRegister adds collectors; what goes wrong stays in the registry's Err.
func (r registerer) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		r.reg.Register("http", c)
	}
}

// Unregister removes nothing: metrics live as long as their process.
func (r registerer) Unregister(prometheus.Collector) bool { return false }
