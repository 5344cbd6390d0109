{{- /* What the schema cannot say: values that contradict each other. All that is wrong is told at once. */ -}}
{{- define "kse.check" -}}
{{- $values := .Values -}}
{{- $wrong := list -}}
{{- $agents := include "kse.agents" . | fromJsonArray -}}
{{- $isService := eq $values.shape "service" -}}
{{- $duration := "^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$" -}}
{{- if and (not $agents) (or $isService (not $values.configuration.extenders)) -}}
{{- $wrong = append $wrong (printf "agents: none is enabled; set agents.NAME.enabled=true, where NAME is one of %s" (keys $values.agents | sortAlpha | join ", ")) -}}
{{- end -}}
{{- $binders := list -}}
{{- $managers := dict -}}
{{- $ports := dict -}}
{{- range $agents -}}
{{- $agent := . -}}
{{- $place := printf "agents.%s" .name -}}
{{- if not (or .filterVerb .prioritizeVerb .bind) -}}
{{- $wrong = append $wrong (printf "%s: kube-scheduler would ask it nothing; is the name right? Otherwise give it a filterVerb or a prioritizeVerb" $place) -}}
{{- end -}}
{{- if and .source (not (has .source .sources)) -}}
{{- $wrong = append $wrong (printf "%s.source is %s; %s" $place .source (ternary (printf "allowed: %s" (join ", " .sources)) "the agent has no choice, leave it empty" (gt (len .sources) 0))) -}}
{{- end -}}
{{- if and (eq .source "prometheus") (not $values.prometheus.url) -}}
{{- $wrong = append $wrong (printf "prometheus.url: is not set, and agents.%s gets its data from there; give it as http://HOST:PORT" .name) -}}
{{- end -}}
{{- if not (regexMatch $duration .timeout) -}}
{{- $wrong = append $wrong (printf "%s.timeout is %q; give a number with its unit, such as 5s or 500ms" $place .timeout) -}}
{{- end -}}
{{- if and .nudge (not $values.nodeCache) -}}
{{- $wrong = append $wrong (printf "%s.nudge: needs nodeCache: true, which sees nodes change" $place) -}}
{{- end -}}
{{- if .bind }}{{ $binders = append $binders $place }}{{ end -}}
{{- range $resource := .managedResources -}}
{{- if not (regexMatch "^[a-z0-9.-]+/[A-Za-z0-9._-]+$" $resource.name) -}}
{{- $wrong = append $wrong (printf "%s.managedResources: %q is no extended resource; give one such as example.com/widget" $place $resource.name) -}}
{{- end -}}
{{- with get $managers $resource.name -}}
{{- $wrong = append $wrong (printf "%s.managedResources: %s is managed by %s too; kube-scheduler takes it in one extender only" $place $resource.name .) -}}
{{- end -}}
{{- $_ := set $managers $resource.name $place -}}
{{- end -}}
{{- range $port := list .port .opsPort -}}
{{- with get $ports (toString $port) -}}
{{- $wrong = append $wrong (printf "%s: port %v is taken by agents.%s; an agent takes its port and that + 1000" $place $port .) -}}
{{- end -}}
{{- $_ := set $ports (toString $port) $agent.name -}}
{{- end -}}
{{- if or (lt (int .port) 1024) (gt (int .opsPort) 65535) -}}
{{- $wrong = append $wrong (printf "%s.port is %v; allowed: 1024 to 64535, for a user without privileges and with health and metrics on the port + 1000" $place .port) -}}
{{- end -}}
{{- if and $isService (eq $values.service.reach "nodePort") (not .nodePort) -}}
{{- $wrong = append $wrong (printf "%s.nodePort: is not set, and service.reach is nodePort; give a port from 30000 to 32767" $place) -}}
{{- end -}}
{{- end -}}
{{- range $extender := $values.configuration.extenders -}}
{{- if .bindVerb }}{{ $binders = append $binders .urlPrefix }}{{ end -}}
{{- range $resource := .managedResources -}}
{{- with get $managers $resource.name -}}
{{- $wrong = append $wrong (printf "configuration.extenders: %s is managed by %s and by %s; kube-scheduler takes it in one extender only" $resource.name . $extender.urlPrefix) -}}
{{- end -}}
{{- $_ := set $managers $resource.name $extender.urlPrefix -}}
{{- end -}}
{{- end -}}
{{- if gt (len $binders) 1 -}}
{{- $wrong = append $wrong (printf "bind: %s all bind; kube-scheduler takes one that does" (join ", " $binders)) -}}
{{- end -}}
{{- if and $isService (eq $values.service.reach "clusterIP") (not $values.service.clusterIP) -}}
{{- $wrong = append $wrong "service.clusterIP: is not set, and service.reach is clusterIP; give a free address of the cluster's service range" -}}
{{- end -}}
{{- if and (include "kse.isDaemonSet" .) $values.metrics.serviceMonitor.enabled -}}
{{- $wrong = append $wrong "metrics.serviceMonitor.enabled: with service.reach hostNetwork the agents listen on 127.0.0.1 of their node only, where Prometheus cannot reach them" -}}
{{- end -}}
{{- $names := list -}}
{{- range $values.configuration.profiles -}}
{{- $name := .schedulerName | default (ternary "default-scheduler" "my-scheduler" $isService) -}}
{{- if has $name $names -}}
{{- $wrong = append $wrong (printf "configuration.profiles: schedulerName %s is there twice; each profile needs a name of its own" $name) -}}
{{- end -}}
{{- $names = append $names $name -}}
{{- end -}}
{{- if not (regexMatch "^(/[A-Za-z0-9._~-]+)*$" $values.pathPrefix) -}}
{{- $wrong = append $wrong (printf "pathPrefix is %q; give words that each have / before them, such as /scheduler" $values.pathPrefix) -}}
{{- end -}}
{{- if and $values.prometheus.url (not (regexMatch "^https?://." $values.prometheus.url)) -}}
{{- $wrong = append $wrong (printf "prometheus.url is %q; give it with http:// or https:// before it" $values.prometheus.url) -}}
{{- end -}}
{{- $elected := $values.configuration.leaderElection -}}
{{- if and (gt (int $values.replicas) 1) (not $isService) (not $elected.enabled) -}}
{{- $wrong = append $wrong "configuration.leaderElection.enabled: is false with several replicas; all schedulers would schedule at once" -}}
{{- end -}}
{{- range $name := list "leaseDuration" "renewDeadline" "retryPeriod" -}}
{{- if not (regexMatch $duration (get $elected $name)) -}}
{{- $wrong = append $wrong (printf "configuration.leaderElection.%s is %q; give a number with its unit, such as 15s" $name (get $elected $name)) -}}
{{- end -}}
{{- end -}}
{{- $wrong = concat $wrong (include "kse.tlsProblems" . | fromJsonArray) -}}
{{- if $wrong -}}
{{- fail (printf "\n\n  %s\n" (join "\n  " $wrong)) -}}
{{- end -}}
{{- end -}}

{{- define "kse.tlsProblems" -}}
{{- $wrong := list -}}
{{- $tls := .Values.tls -}}
{{- $from := $tls.scheduler -}}
{{- if and $tls.clients.required (not $tls.enabled) -}}
{{- $wrong = append $wrong "tls.clients.required: needs tls.enabled: true" -}}
{{- end -}}
{{- if $tls.enabled -}}
{{- if $tls.certManager.enabled -}}
{{- if not $tls.certManager.issuer.name -}}
{{- $wrong = append $wrong "tls.certManager.issuer.name: is not set; name the Issuer or ClusterIssuer that signs" -}}
{{- end -}}
{{- else if not $tls.secretName -}}
{{- $wrong = append $wrong "tls.secretName: is not set; name a secret with tls.crt, tls.key and ca.crt, or set tls.certManager.enabled=true" -}}
{{- end -}}
{{- if eq $from.use "data" -}}
{{- if not $from.caData -}}
{{- $wrong = append $wrong "tls.scheduler.caData: is not set; without a CA kube-scheduler would check no certificate" -}}
{{- end -}}
{{- if ne (empty $from.certData) (empty $from.keyData) -}}
{{- $wrong = append $wrong "tls.scheduler.certData, keyData: one is of no use without the other" -}}
{{- end -}}
{{- if and $tls.clients.required (not $from.certData) -}}
{{- $wrong = append $wrong "tls.scheduler.certData, keyData: are not set, and tls.clients.required asks kube-scheduler for a certificate" -}}
{{- end -}}
{{- else if and (include "kse.isScheduler" .) $tls.clients.required (not $tls.certManager.enabled) (not $from.secretName) -}}
{{- $wrong = append $wrong "tls.scheduler.secretName: is not set, and tls.clients.required asks kube-scheduler for a certificate; name a secret with tls.crt, tls.key and ca.crt" -}}
{{- end -}}
{{- end -}}
{{- toJson $wrong -}}
{{- end -}}
