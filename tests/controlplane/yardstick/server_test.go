package yardstick

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	extender "k8s.io/kube-scheduler/extender/v1"
)

func manyNames(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(`"node-%05d.example"`, i)
	}
	return `{"Pod":{},"Nodes":null,"NodeNames":[` + strings.Join(names, ",") + `]}`
}

func TestServer(t *testing.T) {
	const names, meta = `{"NodeNames":["a"]}`, `{"NodeNameToMetaVictims":{}}`
	for name, v := range map[string]verbs{"null": nullVerbs, "floor": floorVerbs} {
		server := httptest.NewServer(v)
		defer server.Close()
		for _, c := range []struct {
			name, method, path, body string
			status                   int
			says                     string
		}{
			{"filter", "POST", "/filter", names, 200, `"NodeNames":["a"]`},
			{"prioritize", "POST", "/prioritize", names, 200, `[{"Host":"a","Score":5}]`},
			{"preemption", "POST", "/preemption", meta, 200, `{"NodeNameToMetaVictims":{}}`},
			{"prefix", "POST", "/scheduler/predicates/filter", names, 200, `"NodeNames":["a"]`},
			{"many names", "POST", "/filter", manyNames(5000), 200, `"node-04999.example"]`},
			{"many scores", "POST", "/prioritize", manyNames(5000), 200, `{"Host":"node-04999.example","Score":5}]`},
			{"other verb", "POST", "/bind", names, 404, "must end in /filter, /preemption, /prioritize"},
			{"verb not at the end", "POST", "/filter/", names, 404, `no verb at "/filter/"`},
			{"other method", "GET", "/filter", "", 405, "kube-scheduler sends POST"},
			{"bad request", "POST", "/filter", "{}", 400, "filter: n"}, // "neither ..." or "no ..."
		} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				request, err := http.NewRequest(c.method, server.URL+c.path, strings.NewReader(c.body))
				if err != nil {
					t.Fatal(err)
				}
				response, err := server.Client().Do(request)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				body, err := io.ReadAll(response.Body)
				if err != nil {
					t.Fatal(err)
				}
				if response.StatusCode != c.status {
					t.Errorf("status %d, want %d", response.StatusCode, c.status)
				}
				if !strings.Contains(string(body), c.says) {
					t.Errorf("%.200q does not say %q", body, c.says)
				}
				if response.ContentLength != int64(len(body)) || len(response.TransferEncoding) > 0 {
					t.Errorf("Content-Length %d and Transfer-Encoding %v for %d bytes",
						response.ContentLength, response.TransferEncoding, len(body))
				}
			})
		}
	}
}

// A request of unknown length takes another way through the code, and must end the same.
func TestServerReadsChunkedRequests(t *testing.T) {
	server := httptest.NewServer(floorVerbs)
	defer server.Close()
	body := io.MultiReader(strings.NewReader(manyNames(5000))) // hides the length
	response, err := server.Client().Post(server.URL+"/prioritize", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(reply, []byte("Host")); got != 5000 {
		t.Errorf("%d scores for 5000 nodes", got)
	}
}

// One connection for all calls is the reason for always sending the length. The client does as
// kube-scheduler's: it decodes the reply and closes it without reading up to the end.
func TestServerKeepsConnections(t *testing.T) {
	server := httptest.NewServer(nullVerbs)
	defer server.Close()
	reused := 0
	trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		if c.Reused {
			reused++
		}
	}}
	const calls = 10
	for range calls {
		request, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace),
			http.MethodPost, server.URL+"/filter", strings.NewReader(manyNames(5000)))
		if err != nil {
			t.Fatal(err)
		}
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		var result extender.ExtenderFilterResult
		if err := json.NewDecoder(response.Body).Decode(&result); err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	if reused != calls-1 {
		t.Errorf("%d of %d calls reused the connection", reused, calls-1)
	}
}

func TestRunRefusesBadArguments(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no address":      {nil, 2, "--listen is required"},
		"unknown flag":    {[]string{"--port", "1"}, 2, "not defined: -port"},
		"extra argument":  {[]string{"--listen", "127.0.0.1:0", "x"}, 2, `unexpected argument "x"`},
		"no port":         {[]string{"--listen", "127.0.0.1"}, 1, "missing port"},
		"port in use":     {[]string{"--listen", taken.Addr().String()}, 1, "address already in use"},
		"value forgotten": {[]string{"--listen"}, 2, "needs an argument"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := RunNull(append([]string{"null-extender"}, c.args...), &stdout, &stderr)
			if code != c.code || stdout.Len() > 0 {
				t.Errorf("exit status %d, want %d; output %q", code, c.code, &stdout)
			}
			if got := stderr.String(); !strings.HasPrefix(got, "null-extender: ") || !strings.Contains(got, c.says) {
				t.Errorf("%q does not say %q", got, c.says)
			}
		})
	}
}

func TestRunHelps(t *testing.T) {
	for name, program := range map[string]func([]string, io.Writer, io.Writer) int{
		"null-extender": RunNull, "floor-extender": RunFloor,
	} {
		var stdout, stderr bytes.Buffer
		if code := program([]string{name, "--help"}, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Errorf("%s: exit status %d, errors %q", name, code, &stderr)
		}
		if !strings.HasPrefix(stdout.String(), "Usage: "+name+" --listen ADDRESS") {
			t.Errorf("%s: %q", name, &stdout)
		}
	}
}

func TestListenAndServeEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ready, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- listenAndServe(ctx, "127.0.0.1:0", floorVerbs, func(a net.Addr) { ready <- a })
	}()
	response, err := http.Post("http://"+(<-ready).String()+"/filter", "application/json", strings.NewReader(`{"NodeNames":["a"]}`))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("still serving")
	}
}
