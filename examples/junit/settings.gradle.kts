rootProject.name = "ottla-example"
