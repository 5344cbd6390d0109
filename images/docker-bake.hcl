# docker buildx bake -f images/docker-bake.hcl [TARGET...]    from the folder above; README.md tells more

variable "REGISTRY" {
  default = "" # with its slash, as in registry.example/team/
}

variable "VERSION" {
  default = "0.1.0"
}

variable "REVISION" {
  default = ""
}

variable "BASE" {
  default = "docker.io/library/python:3.13-slim-bookworm"
}

variable "AGENTS" {
  default = "" # for the target several, with spaces between
}

group "default" {
  targets = ["all"]
}

group "all" {
  targets = ["congestion", "foo", "image", "networktraffic", "pigeon", "safe"]
}

target "common" {
  context    = "."
  dockerfile = "images/Dockerfile"
  platforms  = ["linux/amd64", "linux/arm64"]
  secret     = ["type=env,id=index,env=PIP_INDEX_URL"]
  args = {
    BASE     = BASE
    REVISION = REVISION
    VERSION  = VERSION
  }
}

target "congestion" {
  inherits = ["common"]
  args     = { AGENTS = "congestion" }
  tags     = ["${REGISTRY}kube-sched-ext-congestion:${VERSION}"]
}

target "foo" {
  inherits = ["common"]
  args     = { AGENTS = "foo" }
  tags     = ["${REGISTRY}kube-sched-ext-foo:${VERSION}"]
}

target "image" {
  inherits = ["common"]
  args     = { AGENTS = "image" }
  tags     = ["${REGISTRY}kube-sched-ext-image:${VERSION}"]
}

target "networktraffic" {
  inherits = ["common"]
  args     = { AGENTS = "networktraffic" }
  tags     = ["${REGISTRY}kube-sched-ext-networktraffic:${VERSION}"]
}

target "pigeon" {
  inherits = ["common"]
  args     = { AGENTS = "pigeon" }
  tags     = ["${REGISTRY}kube-sched-ext-pigeon:${VERSION}"]
}

target "safe" {
  inherits = ["common"]
  args     = { AGENTS = "safe" }
  tags     = ["${REGISTRY}kube-sched-ext-safe:${VERSION}"]
}

target "several" {
  inherits = ["common"]
  args     = { AGENTS = AGENTS }
  tags     = ["${REGISTRY}kube-sched-ext-${replace(AGENTS, " ", "-")}:${VERSION}"]
}
