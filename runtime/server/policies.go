package server

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"sluice/internal/config"
	"sluice/plugins/kit/signature"
)

// maxPolicyBody is the largest body of /policies/stage: a module in base64 and its configuration.
const maxPolicyBody = 16 << 20

// Bounds of the files that a client names: a module by its path, and the signature beside it. A signature that comes in
// the body has the same bound.
const (
	maxPolicyFile    = 64 << 20
	maxSignatureFile = 4 << 10
)

// maxPolicyCall is the largest body of the other changes, which name an id at most.
const maxPolicyCall = 64 << 10

// maxPolicyText is the most bytes of a hook, a name, a path, a hash or an id that a client gives: they are told again in
// errors, in the log and to whoever asks for the policies.
const maxPolicyText = 512

// maxStaging is how many bodies of /policies/stage are held at once: the one whose turn it is, and those that wait.
const maxStaging = 4

// policyRoutes serve /policies:
//
//	GET  /policies           what is active, staged, previous, refused and dropped, with the health of each hook
//	POST /policies/stage     {"hook", "builtin" | "path" | "module_base64", "signature_base64", "sha256", "engine", "config", "shadow_ticks"}: one more staged set
//	POST /policies/activate  {"id", "now"}: all ranks switch to it in one tick; now cuts its shadow run short
//	POST /policies/rollback  all ranks switch back to the previous set
//
// A client has no more rights over files than over prompts: a path is taken only if it lies in one of
// Options.PolicyDirs, the folders whose modules the operator has named already, and no link leads out of it. A browser that
// another site has sent here is refused, since whoever may call these routes decides what is served. A module's signature
// is the content of the file that sluice policy sign writes: for a path it is read from PATH.sig, by the same rule, and
// with module_base64 it comes as signature_base64.
// At most maxStaging bodies of /policies/stage are held at once; one more gets 503 and Retry-After.
func (s *Server) policyRoutes() []route {
	get, post := []string{http.MethodGet}, []string{http.MethodPost}
	return []route{
		{"/policies", get, s.listPolicies},
		{"/policies/stage", post, s.policyChange(s.stagePolicy)},
		{"/policies/activate", post, s.policyChange(s.activatePolicy)},
		{"/policies/rollback", post, s.policyChange(s.rollbackPolicies)},
	}
}

func (s *Server) listPolicies(w http.ResponseWriter, r *http.Request) {
	s.marshal(w, r, s.opts.Policies.Policies())
}

// policyChange serves a change and answers with the set that it made or put in use.
func (s *Server) policyChange(change func(context.Context, []byte) (PolicySet, *failure)) http.HandlerFunc {
	var origin http.CrossOriginProtection
	return func(w http.ResponseWriter, r *http.Request) {
		if err := origin.Check(r); err != nil {
			s.fail(w, r.URL.Path, &failure{status: http.StatusForbidden, message: "a page of another site may not change policies: " + err.Error()})
			return
		}
		limit, advice := int64(maxPolicyCall), "send the id alone"
		if strings.HasSuffix(r.URL.Path, "/stage") {
			limit, advice = maxPolicyBody, "name a larger module by its path"
			select {
			case s.staging <- struct{}{}:
				defer func() { <-s.staging }()
			default:
				w.Header().Set("Retry-After", "1")
				w.Header().Set("Connection", "close") // the body is not read
				s.fail(w, r.URL.Path, &failure{status: http.StatusServiceUnavailable, errType: "policy_busy", outcome: outcomeFailed,
					message: fmt.Sprintf("%d modules are being staged or wait for it, and no more are held; send it again when one is done", maxStaging)})
				return
			}
		}
		raw, fail := s.readUpTo(w, r, limit, advice)
		if fail == nil && s.calls.isStopping() {
			fail = stopping()
		}
		var set PolicySet
		if fail == nil {
			set, fail = change(r.Context(), raw)
		}
		if fail != nil {
			s.fail(w, r.URL.Path, fail)
			return
		}
		s.marshal(w, r, set)
	}
}

func (s *Server) stagePolicy(ctx context.Context, raw []byte) (PolicySet, *failure) {
	q, err := parseStage(raw)
	if err != nil {
		return PolicySet{}, invalid(err.Error())
	}
	if q.path != "" {
		if q.Module, q.Signature, err = s.policyFile(q.path); err != nil {
			return PolicySet{}, invalid(err.Error())
		}
		q.Name = q.path
	}
	set, err := s.opts.Policies.Stage(ctx, q.StageRequest)
	return set, policyFailure(err)
}

func (s *Server) activatePolicy(ctx context.Context, raw []byte) (PolicySet, *failure) {
	id, now := "", false
	root, err := parseBody(raw)
	if err == nil {
		err = root.object(func(key string, v value) (err error) {
			switch key {
			case "id":
				id, err = v.shortText()
			case "now":
				now, err = v.boolean()
			default:
				err = v.errorf("no such field; there are id and now")
			}
			return err
		})
	}
	if err == nil && id == "" {
		err = root.errorf("id is empty; give the id of a staged set, as /policies lists it")
	}
	if err != nil {
		return PolicySet{}, invalid(err.Error())
	}
	activate := s.opts.Policies.Activate
	if now {
		activate = s.opts.Policies.ActivateNow
	}
	set, err := activate(ctx, id)
	return set, policyFailure(err)
}

// rollbackPolicies needs no body; what is sent is not looked at.
func (s *Server) rollbackPolicies(ctx context.Context, _ []byte) (PolicySet, *failure) {
	set, err := s.opts.Policies.Rollback(ctx)
	return set, policyFailure(err)
}

// policyFailure maps an error of a PolicyEngine.
func policyFailure(err error) *failure {
	f := &failure{status: http.StatusInternalServerError, outcome: outcomeFailed}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrPolicyRefused):
		f.status, f.errType = http.StatusBadRequest, "policy_refused"
	case errors.Is(err, ErrPolicyUnknown):
		f.status, f.errType = http.StatusNotFound, "policy_unknown"
	case errors.Is(err, ErrPolicyConflict):
		f.status, f.errType = http.StatusConflict, "policy_conflict"
	case errors.Is(err, ErrStopping):
		return stopping()
	}
	f.message = err.Error()
	return f
}

// stageBody is a body of /policies/stage. A module that is named by path is read by the rule for clients.
type stageBody struct {
	StageRequest
	path string
}

// parseStage checks a body of /policies/stage. The error is a *bodyError.
func parseStage(raw []byte) (q stageBody, err error) {
	root, err := parseBody(raw)
	if err != nil {
		return q, err
	}
	err = root.object(func(key string, v value) (err error) {
		switch key {
		case "hook":
			q.Hook, err = v.shortText()
		case "builtin":
			q.Builtin, err = v.shortText()
		case "path":
			q.path, err = v.shortText()
		case "sha256":
			q.SHA256, err = v.shortText()
		case "engine":
			q.Engine, err = v.shortText()
		case "config":
			q.Config, err = v.policyTable()
		case "shadow_ticks":
			var n uint64
			if n, err = v.integer(0, MaxShadowTicks); err == nil {
				ticks := int(n)
				q.ShadowTicks = &ticks
			}
		case "module_base64":
			q.Module, err = v.base64()
		case "signature_base64":
			if q.Signature, err = v.base64(); err == nil && len(q.Signature) > maxSignatureFile {
				err = v.errorf("%d bytes, a signature has at most %d; give the content of the file that sluice policy sign writes", len(q.Signature), maxSignatureFile)
			}
		default:
			err = v.errorf("no such field; there are hook, builtin, path, module_base64, signature_base64, sha256, engine, config and shadow_ticks")
		}
		return err
	})
	given := 0
	for _, set := range [...]bool{q.Builtin != "", q.path != "", len(q.Module) > 0} {
		if set {
			given++
		}
	}
	if err == nil && given > 1 { // before a file is looked for
		err = root.errorf("%d of builtin, path and module_base64 are given; give one", given)
	}
	if err == nil && len(q.Signature) > 0 && len(q.Module) == 0 {
		err = root.errorf("signature_base64 goes with module_base64; the signature of a path is read from the file PATH%s, and a builtin needs none", signature.Extension)
	}
	return q, err
}

// policyTable is a policy's own table, an object of at most config.MaxPolicyTable bytes. Its error shows no value, which
// may be a secret.
func (v value) policyTable() ([]byte, error) {
	if v.raw[0] != '{' {
		return nil, v.errorf("want an object, got %s", strings.Replace(v.kind(), "the ", "a ", 1))
	}
	if len(v.raw) > config.MaxPolicyTable {
		return nil, v.errorf("has %d bytes, at most %d are allowed; give a smaller table", len(v.raw), config.MaxPolicyTable)
	}
	return v.raw, nil
}

// base64 is a string's content, in base64.
func (v value) base64() ([]byte, error) {
	text, err := v.text()
	if err != nil {
		return nil, err
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, v.errorf("not base64: %v", err)
	}
	return b, nil
}

// shortText is a string of at most maxPolicyText bytes.
func (v value) shortText() (string, error) {
	if len(v.raw) > 6*maxPolicyText+2 { // as long as it can be with every byte escaped
		return "", v.errorf("has more than %d bytes; give a shorter one", maxPolicyText)
	}
	s, err := v.text()
	if err == nil && len(s) > maxPolicyText {
		return "", v.errorf("has %d bytes, at most %d are allowed; give a shorter one", len(s), maxPolicyText)
	}
	return s, err
}

// policyFile reads a module that a client has named, and the signature beside it where there is one: the policies in use
// say whether it is needed. A relative path starts at the first of PolicyDirs. Links are followed only within the folder,
// and nothing but regular files is read.
func (s *Server) policyFile(path string) (module, sig []byte, err error) {
	if len(s.opts.PolicyDirs) == 0 {
		return nil, nil, &bodyError{"this server takes no path; send the module itself as module_base64"}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.opts.PolicyDirs[0], path)
	}
	i := slices.IndexFunc(s.opts.PolicyDirs, func(dir string) bool {
		rel, err := filepath.Rel(dir, path)
		return err == nil && filepath.IsLocal(rel)
	})
	if i < 0 {
		return nil, nil, &bodyError{fmt.Sprintf("path %q lies in none of the folders whose modules the configuration names (%s); put it there, or send it as module_base64",
			path, strings.Join(s.opts.PolicyDirs, ", "))}
	}
	if module, err = readWithin(s.opts.PolicyDirs[i], path, maxPolicyFile); err != nil {
		return nil, nil, &bodyError{fmt.Sprintf("path %q cannot be read: %v; name a readable Wasm module", path, err)}
	}
	beside := path + signature.Extension
	if sig, err = readWithin(s.opts.PolicyDirs[i], beside, maxSignatureFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &bodyError{fmt.Sprintf("the module's signature %q cannot be read: %v; put the file that sluice policy sign writes there", beside, err)}
	}
	return module, sig, nil
}

// readWithin reads a file below dir that has at most so many bytes.
func readWithin(dir, path string, most int64) ([]byte, error) {
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that nobody writes to does not stop it
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case info.Size() == 0 || info.Size() > most:
		return nil, fmt.Errorf("it has %d bytes; it may have 1 to %d", info.Size(), most)
	}
	b := make([]byte, info.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, err
	}
	return b, nil
}
