// Package yardstick has two extenders that decide nothing. What a scheduler loses with one of
// them is what the protocol itself costs, so the agents of this project are measured against
// them:
//
//   - null is what one writes in Go without giving speed a thought: the upstream types,
//     encoding/json and net/http.
//   - floor is the cheapest answer that the protocol allows: it decodes nothing.
//
// Both share everything in this file, so what differs between them is the codec alone.
package yardstick

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// score is what every node gets in prioritize: the middle of the scale.
const score = 5

// An exchange is what a verb works on: the body of the request, and memory for the reply that
// it may use, grow and leave behind for the next request.
type exchange struct {
	body    bytes.Buffer
	scratch []byte
}

// A verb answers one request. Its reply may lie within the exchange: nothing touches that
// before the reply is sent.
type verb func(*exchange) ([]byte, error)

// Whole-node requests are megabytes; without reuse the garbage collector would be measured too.
var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// verbs are the verbs of an extender by the last element of their path, so that any urlPrefix
// will do.
type verbs map[string]verb

func (v verbs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	answer, known := v[name]
	if !known {
		all := strings.Join(slices.Sorted(maps.Keys(v)), ", /")
		fail(w, http.StatusNotFound, fmt.Errorf("no verb at %q: the path must end in /%s", r.URL.Path, all))
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		fail(w, http.StatusMethodNotAllowed, fmt.Errorf("method %s: kube-scheduler sends POST", r.Method))
		return
	}

	x := exchanges.Get().(*exchange)
	defer exchanges.Put(x)
	if err := x.read(r); err != nil {
		fail(w, http.StatusBadRequest, fmt.Errorf("reading the request: %w", err))
		return
	}
	reply, err := answer(x)
	if err != nil {
		fail(w, http.StatusBadRequest, fmt.Errorf("%s: %w", name, err))
		return
	}
	send(w, http.StatusOK, "application/json", reply)
}

// maxTrustedLength keeps a made-up Content-Length from allocating memory before a byte has come.
const maxTrustedLength = 64 << 20

func (x *exchange) read(r *http.Request) error {
	x.body.Reset()
	if r.ContentLength > 0 {
		// With MinRead bytes to spare ReadFrom finds the end without growing once more.
		x.body.Grow(int(min(r.ContentLength, maxTrustedLength)) + bytes.MinRead)
	}
	_, err := x.body.ReadFrom(r.Body)
	return err
}

// send always gives the length: net/http sends what is longer than its buffer in chunks
// otherwise, and kube-scheduler's client doesn't reuse the connection of a long chunked reply.
func send(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only if the caller has gone
}

func fail(w http.ResponseWriter, status int, err error) {
	send(w, status, "text/plain; charset=utf-8", []byte(err.Error()+"\n"))
}

// run is the program around an extender: it serves until SIGINT or SIGTERM and returns the
// exit status. args[0] is the program's name.
func run(args []string, about string, v verbs, stdout, stderr io.Writer) int {
	name := args[0]
	help := fmt.Sprintf(`Usage: %s --listen ADDRESS

%s

  --listen ADDRESS  where to serve, such as 127.0.0.1:8888; port 0 takes a free one,
                    which the first line of output tells
  --help            print this text
`, name, about)

	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // it would print errors twice, and help always to stderr
	listen := flags.String("listen", "", "")
	err := flags.Parse(args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, help)
		return 0
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *listen == "":
		err = errors.New("--listen is required")
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n\n%s", name, err, help)
		return 2
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := listenAndServe(ctx, *listen, v, func(addr net.Addr) {
		fmt.Fprintf(stdout, "%s: listening on %s\n", name, addr)
	}); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// listenAndServe serves until the context ends.
func listenAndServe(ctx context.Context, address string, handler http.Handler, ready func(net.Addr)) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	// No timeouts: kube-scheduler keeps idle connections for 90 s, and one that the server
	// closes first is a lost race now and then, which a benchmark would show as an outlier.
	server := &http.Server{Handler: handler}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	ready(listener.Addr())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		grace, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		return server.Shutdown(grace)
	}
}
