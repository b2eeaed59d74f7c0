plugins {
    java
}

repositories {
    mavenCentral()
}

dependencies {
    testImplementation("org.junit.jupiter:junit-jupiter:5.11.4")
    testImplementation("org.apache.kafka:kafka-clients:4.4.0")
    testRuntimeOnly("org.junit.platform:junit-platform-launcher:1.11.4")
}

sourceSets {
    test {
        // The tests are in this folder; without this line they would be in src/test/java.
        java.setSrcDirs(listOf("."))
        java.include("*.java")
    }
}

tasks.test {
    useJUnitPlatform()
    // Shows the history of the transactions of a failed test.
    testLogging.exceptionFormat = org.gradle.api.tasks.testing.logging.TestExceptionFormat.FULL
}
